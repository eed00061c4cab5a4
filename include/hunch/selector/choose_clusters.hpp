// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bits.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/selector/detail/ranked_cut.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// The best clusters of a row of scores as row ranges: what a budget allows, ties to the lower
/// number, adjacent ranges merged, the core in front. The scores are logits of a law over clusters.
/// A budget that ranks per row takes the logarithm of its rows from each.
template <ClusterBudget B>
struct choose_clusters {
  const std::int32_t* begin;  ///< [clusters + 1] first rows
  std::int32_t clusters;      ///< below 64 * `team::list_capacity`
  B budget;

  /// Writes the ranges, and returns how many on all ranks. Collective; allocates nothing.
  /// \param scores [clusters], finite; edited by a budget that ranks per row.
  /// \param ranges room for one more than the clusters that the budget allows.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t operator()(T& team, float* scores,
                                                                   std::int32_t depth,
                                                                   row_range* ranges) const {
    team::ask_nearby(team, begin, (std::int64_t{clusters} + 1) * 4);
    team::ask_nearby(team, scores, std::int64_t{clusters} * 4);
    const choice chosen = best(team, scores, depth);
    // Unit 0 is the core, unit c + 1 is cluster c; 64 units in a word.
    const std::int32_t units = clusters + 1;
    const std::int32_t words = (units + 63) / 64;
    const std::int32_t* const rows = begin;
    mark_units(team, chosen, scores, words);
    const std::int64_t* const list = team.scratch().list;
    const auto word = [=](std::int32_t w) {
      return w < 0 || w >= words ? std::uint64_t(0) : static_cast<std::uint64_t>(list[w]);
    };
    // A range begins at a unit that is in, after one that is not.
    const auto starts = [=](std::int32_t w) {
      return word(w) & ~(word(w) << 1 | word(w - 1) >> 63);
    };
    // Those of the starts `own` of a word, after `before` in the words in front of it.
    const auto write = [=](std::int32_t w, std::int32_t before, std::uint64_t own) HUNCH_INLINED {
      const std::uint64_t all = starts(w);
      for (std::uint64_t left = all & own; left != 0; left &= left - 1) {
        const std::int32_t bit = lowest_of(left);
        const std::int32_t first = w * 64 + bit;
        std::int32_t v = w;  // the word of the first unit after that is not in
        std::uint64_t out = ~word(v) & ~std::uint64_t(0) << bit;
        while (out == 0) { out = ~word(++v); }
        const std::int32_t last = v * 64 + lowest_of(out);
        ranges[before + count_of(all & ((std::uint64_t(1) << bit) - 1))] = {
            first == 0 ? 0 : rows[first - 1], rows[last - 1]};
      }
    };
    if constexpr (T::worker_type::lanes == 1) {
      team.for_each(words, [=](std::int64_t w) {
        std::int32_t before = 0;
        for (std::int32_t v = 0; v < w; ++v) { before += count_of(starts(v)); }
        write(static_cast<std::int32_t>(w), before, ~std::uint64_t(0));
      });
    } else {
      team.for_each_worker(words, [=](auto& worker, std::int32_t w) {
        typename T::worker_type::template per_lane<std::int32_t> counts;
        worker.each(
            [=](std::int32_t lane, std::int32_t& count) {
              count = 0;
              for (std::int32_t v = lane; v < w; v += 32) { count += count_of(starts(v)); }
            },
            counts);
        const std::int32_t before = worker.sum(counts);
        worker.each([=](std::int32_t lane) {
          write(w, before, std::uint64_t(0x100000001) << lane);  // two of 64
        });
      });
    }
    std::int32_t count = 0;
    for (std::int32_t w = 0; w < words; ++w) { count += count_of(starts(w)); }
    return count;
  }

 private:
  /// Scores that are not numbers choose the first cluster: any choice is exact.
  struct choice {
    ranked_cut cut;
    bool of_numbers;

    HUNCH_HOST_DEVICE HUNCH_INLINE bool takes(const float* scores, std::int64_t c) const {
      return of_numbers ? cut.keeps(scores[c], static_cast<std::int32_t>(c)) : c == 0;
    }
  };

  /// Puts the units that are in into the team's list: a loop that vectorises, or votes of a warp.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void mark_units(T& team, const choice& chosen,
                                                           const float* scores,
                                                           std::int32_t words) const {
    const std::int32_t units = clusters + 1;
    const bool core = begin[0] > 0;
    const auto is_in = [=](std::int64_t u)
                           HUNCH_INLINED { return u == 0 ? core : chosen.takes(scores, u - 1); };
    if constexpr (T::worker_type::lanes == 1) {
      team.fill(words, [=](std::int64_t w) {
        std::uint64_t bits = 0;
        const std::int64_t first = w * 64;
        for (std::int64_t u = first; u < first + 64 && u < units; ++u) {
          bits |= static_cast<std::uint64_t>(is_in(u)) << (u - first);
        }
        return static_cast<std::int64_t>(bits);
      });
    } else {
      team.fill_by_worker(words, [=](auto& worker, std::int32_t w, const auto& put) {
        typename T::worker_type::template per_lane<std::uint32_t> lower, upper;
        worker.each(
            [=](std::int32_t lane, std::uint32_t& low, std::uint32_t& high) {
              const std::int32_t u = w * 64 + lane;
              low = static_cast<std::uint32_t>(u < units && is_in(u)) << lane;
              high = static_cast<std::uint32_t>(u + 32 < units && is_in(u + 32)) << lane;
            },
            lower, upper);
        const std::uint64_t bits = std::uint64_t(worker.any(upper)) << 32 | worker.any(lower);
        worker.each([&](std::int32_t lane) {
          if (lane == 0) { put(w, static_cast<std::int64_t>(bits)); }
        });
      });
    }
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE bool ranks_per_row() const {
    if constexpr (hunch::detail::has_ranking<B>) {
      return budget.ranks_per_row;
    } else {
      return false;
    }
  }

  /// Rows of a cluster.
  struct rows_of_cluster {
    using integer = std::int32_t;
    const std::int32_t* begin;
    HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t operator()(std::int64_t c) const {
      return begin[c + 1] - begin[c];
    }
  };
  /// What a share is one of: the mass of the clusters by the router's law, in whole numbers, whose
  /// sums have no order; or all that have some mass, for small ones would be lost beside large
  /// ones.
  struct mass_of_cluster {
    using integer = std::int64_t;
    law<float> router;
    const std::int32_t* begin;
    bool per_row;
    bool counts;
    HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t operator()(std::int64_t c) const {
      const float w = router.weight(c);
      const std::int32_t rows = per_row ? begin[c + 1] - begin[c] : 1;
      const auto mass = static_cast<std::int64_t>(static_cast<std::int32_t>(w * 0x1p30f)) * rows;
      return counts ? (w > 0.0f ? 1 : 0) : mass;
    }
  };

  template <class T, class Amount>
  HUNCH_HOST_DEVICE static HUNCH_INLINE_ON_DEVICE typename Amount::integer sum_of(
      T& team, std::int32_t n, const Amount& amount) {
    using integer = typename Amount::integer;
    return team.reduce(n, integer(0), amount, [](integer a, integer b) { return a + b; });
  }
  template <class T, class Amount>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE typename Amount::integer kept_by(
      T& team, const ranked_cut& cut, const float* scores, const Amount& amount) const {
    struct kept {
      using integer = typename Amount::integer;
      ranked_cut cut;
      const float* scores;
      Amount amount;
      HUNCH_HOST_DEVICE HUNCH_INLINE integer operator()(std::int64_t c) const {
        return cut.keeps(scores[c], static_cast<std::int32_t>(c)) ? static_cast<integer>(amount(c))
                                                                  : integer(0);
      }
    };
    return sum_of(team, clusters, kept{cut, scores, amount});
  }

  /// The best clusters. In the order of their scores, and of their numbers where these are equal,
  /// the choice ends with the cluster that uses the budget up.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE choice best(T& team, float* scores,
                                                       std::int32_t depth) const {
    if (ranks_per_row()) {
      const std::int32_t* const first = begin;
      team.for_each(clusters, [=](std::int64_t c) {
        scores[c] -= static_cast<float>(log_of(static_cast<double>(first[c + 1] - first[c])));
      });
    }
    const law<float> all = whole_row(team, row_view<const float>{scores, clusters});
    if (all.status != status::ok) { return {.cut = {}, .of_numbers = false}; }
    const ranked_cut::keys::key top = ranked_cut::keys::of(all.maximum);
    const std::int32_t most = budget.at(depth);
    ranked_cut cut;
    if (most < clusters) {
      cut = cut_at_amount(team, scores, clusters, top, most, team::one_each{});
    }
    if constexpr (hunch::detail::has_share<B>) {
      const mass_of_cluster mass{all, begin, ranks_per_row(), !(budget.share < 1.0f)};
      const double wanted =
          static_cast<double>(budget.share) * static_cast<double>(sum_of(team, clusters, mass));
      const auto whole = static_cast<std::int64_t>(wanted);
      const std::int64_t least = whole + (static_cast<double>(whole) < wanted ? 1 : 0);
      // Where all are wanted, and all have some mass, there is nothing to cut.
      const bool everything = mass.counts && least == clusters;
      if (!everything && kept_by(team, cut, scores, mass) >= least) {
        cut = cut_at_amount(team, scores, clusters, top, least, mass);
      }
    }
    if constexpr (hunch::detail::has_rows<B>) {
      const rows_of_cluster rows{begin};
      const std::int64_t room = budget.rows_at(depth) - begin[0];
      const std::int64_t least = larger(room, std::int64_t(1));
      if (kept_by(team, cut, scores, rows) >= least) {
        cut = cut_at_amount(team, scores, clusters, top, least, rows);
        // It does not fit, and is not the only one: without it.
        if (cut.before > 0 && cut.before + rows(cut.number) > room) { --cut.number; }
      }
    }
    return {.cut = cut, .of_numbers = true};
  }
};

}  // namespace hunch::kernel

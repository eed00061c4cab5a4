// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/bits.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
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
  std::int32_t clusters;
  B budget;

  /// Writes the ranges, and returns how many on all ranks. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t operator()(T& team, float* scores,
                                                                   std::int32_t depth,
                                                                   row_range* ranges) const {
    const law<float> chosen = best(team, scores, depth);
    // Unit 0 is the core, unit c + 1 is cluster c; 64 units in a word.
    const std::int32_t units = clusters + 1;
    const std::int32_t words = (units + 63) / 64;
    team.fill(words, [=, *this](std::int64_t w) {
      std::uint64_t bits = 0;
      const std::int64_t first = w * 64;
      for (std::int64_t u = first; u < first + 64 && u < units; ++u) {
        const bool in = u == 0 ? begin[0] > 0 : takes(chosen, u - 1);
        bits |= static_cast<std::uint64_t>(in) << (u - first);
      }
      return static_cast<std::int64_t>(bits);
    });
    const std::int64_t* const list = team.scratch().list;
    const auto word = [=](std::int64_t w) {
      return w < 0 || w >= words ? std::uint64_t(0) : static_cast<std::uint64_t>(list[w]);
    };
    // A range begins at a unit that is in, after one that is not.
    const auto starts = [=](std::int64_t w) {
      return word(w) & ~(word(w) << 1 | word(w - 1) >> 63);
    };
    const std::int32_t* const rows = begin;
    team.for_each(words, [=](std::int64_t w) {
      std::int32_t at = 0;
      for (std::int64_t before = 0; before < w; ++before) { at += count_of(starts(before)); }
      for (std::uint64_t left = starts(w); left != 0; left &= left - 1) {
        const std::int64_t first = w * 64 + lowest_of(left);
        std::int64_t last = first;  // the first unit after that is not in
        while ((word(last / 64) >> (last % 64) & 1u) != 0) { ++last; }
        ranges[at++] = {first == 0 ? 0 : rows[first - 1], rows[last - 1]};
      }
    });
    std::int32_t count = 0;
    for (std::int64_t w = 0; w < words; ++w) { count += count_of(starts(w)); }
    return count;
  }

 private:
  /// Scores that are not numbers choose the first cluster: any choice is exact.
  HUNCH_HOST_DEVICE static bool takes(const law<float>& chosen, std::int64_t c) {
    return chosen.status == status::ok ? chosen.keeps(c) : c == 0;
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE bool ranks_per_row() const {
    if constexpr (hunch::detail::has_ranking<B>) {
      return budget.ranks_per_row;
    } else {
      return false;
    }
  }

  template <class T>
  HUNCH_HOST_DEVICE static HUNCH_INLINE_ON_DEVICE std::int32_t count_in(T& team,
                                                                        const law<float>& l) {
    return team.reduce(
        l.size(), std::int32_t(0), [=](std::int64_t c) { return l.keeps(c) ? 1 : 0; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
  /// The core included.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t rows_in(T& team,
                                                                const law<float>& l) const {
    const std::int32_t* const first = begin;
    return first[0] + team.reduce(
                          l.size(), std::int32_t(0),
                          [=](std::int64_t c) { return l.keeps(c) ? first[c + 1] - first[c] : 0; },
                          [](std::int32_t a, std::int32_t b) { return a + b; });
  }
  /// By the router's law, in units of its own.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE double mass_in(T& team, const law<float>& l) const {
    const std::int32_t* const first = begin;
    const bool per_row = ranks_per_row();
    return team.sum(l.size(), [=](std::int64_t c) {
      const float rows = per_row ? static_cast<float>(first[c + 1] - first[c]) : 1.0f;
      return product(l.weight(c), rows);
    });
  }

  /// What a share is one of: the mass of the clusters, or all that have some, for small ones would
  /// be lost in a sum beside large ones.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE double shared_in(T& team, const law<float>& l) const {
    if (budget.share < 1.0f) { return mass_in(team, l); }
    return static_cast<double>(team.reduce(
        l.size(), std::int32_t(0), [=](std::int64_t c) { return l.weight(c) > 0.0f ? 1 : 0; },
        [](std::int32_t a, std::int32_t b) { return a + b; }));
  }

  /// The best clusters as a law that keeps them. In the order of their scores, and of their numbers
  /// where these are equal, it ends with the cluster that uses the budget up.
  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<float> best(T& team, float* scores,
                                                           std::int32_t depth) const {
    if (ranks_per_row()) {
      const std::int32_t* const first = begin;
      team.for_each(clusters, [=](std::int64_t c) {
        scores[c] -= static_cast<float>(log_of(static_cast<double>(first[c + 1] - first[c])));
      });
    }
    const law<float> all = whole_row(team, row_view<const float>{scores, clusters});
    if (all.status != status::ok) { return all; }
    const std::int32_t most = budget.at(depth);
    double wanted = 0.0;
    if constexpr (hunch::detail::has_share<B>) {
      wanted = static_cast<double>(budget.share) * shared_in(team, all);
    }
    const auto up_to = [=](float score, std::int32_t number) {
      law<float> l = all;
      l.threshold = score;
      l.last_kept = number;
      return l;
    };
    const auto is_used_up = [&](const law<float>& l) {
      const std::int32_t count = count_in(team, l);
      if (count == 0 || count >= most) { return count > 0; }
      if constexpr (hunch::detail::has_rows<B>) {
        if (rows_in(team, l) >= budget.rows_at(depth)) { return true; }
      }
      if constexpr (hunch::detail::has_share<B>) {
        if (shared_in(team, l) >= wanted) { return true; }
      }
      return false;
    };
    using keys = order<float>;
    const float score = keys::value(detail::largest_key(
        keys::minus_infinity, keys::of(all.maximum) + 1,
        [&](keys::key k) { return is_used_up(up_to(keys::value(k), last_id)); }));
    std::int32_t low = 0;
    std::int32_t high = clusters - 1;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (is_used_up(up_to(score, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    law<float> l = up_to(score, low);
    if constexpr (hunch::detail::has_rows<B>) {
      // It does not fit, and is not the only one: without it.
      if (rows_in(team, l) > budget.rows_at(depth) && count_in(team, l) > 1) { --l.last_kept; }
    }
    return l;
  }
};

}  // namespace hunch::kernel

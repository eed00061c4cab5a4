// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/kernel/restrict.hpp>
#include <hunch/law.hpp>
#include <hunch/selector/budget.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// The best clusters of a row of scores as row ranges: what a budget allows, ties to the lower
/// number, adjacent ranges merged, the core in front. The scores are logits of a law over clusters;
/// the choice is the cut that a sampler would make, top-p for a budget by mass, top-k for all.
template <ClusterBudget B>
struct choose_clusters {
  const std::int32_t* begin;  ///< [clusters + 1] first rows
  std::int32_t clusters;
  B budget;

  /// Writes the ranges, and returns how many on all ranks. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t operator()(T& team, const float* scores,
                                                                   std::int32_t depth,
                                                                   row_range* ranges) const {
    const law<float> chosen = cut(team, scores, depth);
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
    // A range begins at a unit that is in, behind one that is not.
    const auto starts = [=](std::int64_t w) {
      return word(w) & ~(word(w) << 1 | word(w - 1) >> 63);
    };
    const std::int32_t* const rows = begin;
    team.for_each(words, [=](std::int64_t w) {
      std::int32_t at = 0;
      for (std::int64_t before = 0; before < w; ++before) { at += count_of(starts(before)); }
      for (std::uint64_t left = starts(w); left != 0; left &= left - 1) {
        const std::int64_t first = w * 64 + lowest_of(left);
        std::int64_t last = first;  // the first unit behind that is not in
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

  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<float> best(T& team, const float* scores,
                                                           std::int32_t count) const {
    law<float> l = whole_row(team, row_view<const float>{scores, clusters});
    l.scale = scale_at_one<float>;
    if (l.status != status::ok) { return l; }
    if constexpr (requires { budget.share; }) {
      if (budget.share < 1.0f) { keep_top_p(team, l, budget.share); }
    }
    keep_top_k(team, l, count);
    return l;
  }

  template <class T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<float> cut(T& team, const float* scores,
                                                          std::int32_t depth) const {
    const std::int32_t most = budget.at(depth);
    if constexpr (requires { budget.rows; }) {
      // As many as fit, at least one.
      std::int32_t low = 1;
      std::int32_t high = most;
      while (low < high) {
        const std::int32_t middle = low + (high - low + 1) / 2;
        const law<float> chosen = best(team, scores, middle);
        const std::int32_t* const first = begin;
        const std::int32_t rows = team.reduce(
            clusters, std::int32_t(0),
            [=](std::int64_t c) { return takes(chosen, c) ? first[c + 1] - first[c] : 0; },
            [](std::int32_t a, std::int32_t b) { return a + b; });
        if (begin[0] + rows <= budget.rows) {
          low = middle;
        } else {
          high = middle - 1;
        }
      }
      return best(team, scores, low);
    } else {
      return best(team, scores, most);
    }
  }

  HUNCH_HOST_DEVICE static std::int32_t count_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
    return __popcll(bits);
#else
    return __builtin_popcountll(bits);
#endif
  }
  HUNCH_HOST_DEVICE static std::int32_t lowest_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
    return __ffsll(static_cast<long long>(bits)) - 1;
#else
    return __builtin_ctzll(bits);
#endif
  }
};

}  // namespace hunch::kernel

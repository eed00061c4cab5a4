// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/cut_estimate.hpp>
#include <hunch/distribution/detail/cut_of_list.hpp>
#include <hunch/distribution/detail/measure.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Where to cut a law: the largest logit such that what lies at or above it measures enough.
/// Samples of the row say where that is likely to be; what lies above that place is measured, and
/// what lies there is collected and searched exactly. Where the samples were wrong, what was
/// measured is the end of a smaller bracket. A row in which that fails (thousands of equal logits)
/// is bisected.

namespace hunch::kernel {

/// Where to cut `l` so that what it keeps measures at least `wanted` > 0 of `total`, its measure
/// before. Elements of weight 0 are never counted. Collective.
template <class Measure, Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE cut<real_of<Logit>> find_cut(T& team, const law<Logit>& l,
                                                                      double wanted, double total) {
  using real = real_of<Logit>;
  using keys = order<real>;
  using key = typename keys::key;
  constexpr real lowest = -infinity<real>;
  const detail::cut_estimate<Measure, T, Logit> estimate{team, l, wanted};
  const auto measure = [=](key k) { return Measure::of(l, keys::value(k)); };
  detail::bracket<real> b{lowest, keys::value(keys::of(l.maximum) + 1),
                          static_cast<float>(total - wanted), 0.0};
  constexpr int attempts = 8;
  HUNCH_ROLLED
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (Measure::has_end && attempt == 2 && b.low == lowest) {
      // As it is measured here all may be less than `total`: then no place is found.
      const double all = measure_at_least<Measure>(team, l, lowest);
      if (all < wanted) { return {lowest, b.at_high, 0}; }
      b.spare = static_cast<float>(all - wanted);
    }
    // A part of the bracket that is likely to hold the cut and goes into a list.
    real low, high = b.high;
    if (attempt > 1 ||
        ((attempt > 0 || !estimate.near_maximum(b, low)) && !estimate.around_cut(b, low, high))) {
      estimate.around_cut_by_halves(b, low, high);
    }
    if (!(low < high)) { break; }
    if (high < b.high) {
      const double above = measure_at_least<Measure>(team, l, high);
      if (above >= wanted) {
        b.low = high;
        b.spare = static_cast<float>(above - wanted);
        continue;
      }
      b.high = high;
      b.at_high = above;
    }
    const auto between = [logits = l.logits.data, low, high](std::int64_t i) {
      const real x = to_real(logits[i]);
      return (int(x >= low) & int(x < high) & int(x > lowest)) != 0;
    };
    const auto inside = [=](std::int64_t i) { return (int(l.keeps(i)) & int(between(i))) != 0; };
    const auto key_of = [logits = l.logits.data](std::int64_t i) {
      return keys::of(to_real(logits[i]));
    };
#if !defined(__CUDA_ARCH__)
    const bool whole = whole_law<Logit>::fits(l);
#else
    constexpr bool whole = false;
#endif
    const std::int32_t count =
        whole ? team::compact_row(team, l.size(), between, key_of, team::list_capacity)
              : team::compact_row(team, l.size(), inside, key_of, team::list_capacity);
    if (count <= team::list_capacity) {
      const cut<real> c = detail::cut_of_list(team, count, low, b.high, b.at_high, wanted, measure);
      // What rounding left out of a list that holds everything is not found anywhere else.
      if (c.ties > 0 || low == b.low) { return c; }
    } else if (low == b.low) {
      if (attempt < 2) { continue; }
      break;  // thousands of equal logits
    }
    const double found = measure_at_least<Measure>(team, l, low);
    if (found >= wanted) {
      b.low = low;
      b.spare = static_cast<float>(found - wanted);
    } else {
      b.high = low;
      b.at_high = found;
    }
  }
  const key found = detail::largest_key(keys::of(b.low), keys::of(b.high), [&](key k) {
    return measure_at_least<Measure>(team, l, keys::value(k)) >= wanted;
  });
  const real value = keys::value(found);
  const real above = keys::value(found + 1);
  const auto ties = static_cast<std::int32_t>(measure_at_least<element_count>(team, l, value) -
                                              measure_at_least<element_count>(team, l, above));
  return {value, measure_at_least<Measure>(team, l, above), ties};
}

}  // namespace hunch::kernel

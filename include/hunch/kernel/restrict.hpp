// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <hunch/law.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Operations that make a law out of a row of logits and cut it: collective, no allocation, no
/// write to the row. Ties are decided by probability descending, then by id ascending.

namespace hunch::kernel {

/// The law of `row` at temperature 1 without its norm, or a law that only carries an error: a NaN
/// or a +inf is `invalid_logits`, nothing but -inf is `nothing_left`. Reads the row once.
template <class Real, Team T>
HUNCH_HOST_DEVICE law<Real> whole_row(T& team, row_view<const Real> row,
                                      status nothing_left = status::invalid_logits) {
  using keys = order<Real>;
  using key = typename keys::key;
  law<Real> result;
  result.logits = row;
  const key top = team.reduce(
      row.size, keys::minus_infinity, [=](std::int64_t i) { return keys::of(row[i]); },
      [](key a, key b) { return a > b ? a : b; });
  if (top >= keys::plus_infinity || top <= keys::minus_infinity) {
    result.status = top >= keys::plus_infinity ? status::invalid_logits : nothing_left;
    return result;
  }
  result.maximum = keys::value(top);
  result.scale = Real(1.4426950408889634074);
  return result;
}

/// The lowest id among the elements equal to the maximum of `l`.
template <class Real, Team T>
HUNCH_HOST_DEVICE std::int32_t argmax(T& team, const law<Real>& l) {
  constexpr std::int32_t none = order<float>::highest;
  return team.reduce(
      l.logits.size, none,
      [=](std::int64_t i) {
        return l.logits[i] == l.maximum ? static_cast<std::int32_t>(i) : none;
      },
      [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
}

/// Restricts a law to its most probable element: temperature 0.
template <class Real, Team T>
HUNCH_HOST_DEVICE void keep_argmax(T& team, law<Real>& l) {
  l.last_kept = argmax(team, l);
  l.threshold = l.maximum;
}

namespace detail {

template <class Real, Team T, class Predicate>
HUNCH_HOST_DEVICE std::int32_t count_kept(T& team, const law<Real>& l, Predicate&& also) {
  return team.reduce(
      l.logits.size, std::int32_t(0), [=](std::int64_t i) { return l.keeps(i) && also(i) ? 1 : 0; },
      [](std::int32_t a, std::int32_t b) { return a + b; });
}

/// The largest key k with enough(k), where enough is true up to some key and false above it, and
/// true at -inf. Bisection on integer keys: exact, at most 64 passes.
template <class Real, class Enough>
HUNCH_HOST_DEVICE typename order<Real>::key largest_key(Real maximum, Enough&& enough) {
  using keys = order<Real>;
  typename keys::key low = keys::minus_infinity;  // enough
  typename keys::key high = keys::of(maximum);    // perhaps
  while (low < high) {
    // The mean rounded up, without overflow.
    const auto middle = (low | high) - ((low ^ high) >> 1);
    if (enough(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Sets the cut of `l` so that everything above `threshold` stays, and the first `ties` elements
/// equal to it.
template <class Real, Team T>
HUNCH_HOST_DEVICE void cut_at(T& team, law<Real>& l, Real threshold, std::int32_t ties) {
  const law<Real> before = l;
  std::int32_t low = 0;
  std::int32_t high = before.logits.size - 1;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    const std::int32_t held = count_kept(
        team, before, [=](std::int64_t i) { return before.logits[i] == threshold && i <= middle; });
    if (held >= ties) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  l.threshold = threshold;
  l.last_kept = low;
}

}  // namespace detail

/// Keeps the k most probable elements (all, if fewer are kept); k >= 1.
template <class Real, Team T>
HUNCH_HOST_DEVICE void keep_top_k(T& team, law<Real>& l, std::int32_t k) {
  using keys = order<Real>;
  const law<Real> before = l;
  const auto at_least = [&](typename keys::key key) {
    const Real cut = keys::value(key);
    return detail::count_kept(team, before,
                              [=](std::int64_t i) { return before.logits[i] >= cut; });
  };
  if (at_least(keys::minus_infinity) <= k) { return; }
  const Real cut = keys::value(detail::largest_key<Real>(
      before.maximum, [&](typename keys::key key) { return at_least(key) >= k; }));
  const std::int32_t above =
      detail::count_kept(team, before, [=](std::int64_t i) { return before.logits[i] > cut; });
  detail::cut_at(team, l, cut, k - above);
}

/// Keeps the smallest set of most probable elements that holds at least the share p of the mass
/// that is kept so far; 0 < p < 1. (Holtzman et al. 2020, arXiv:1904.09751)
template <class Real, Team T>
HUNCH_HOST_DEVICE void keep_top_p(T& team, law<Real>& l, Real p) {
  using keys = order<Real>;
  const law<Real> before = l;
  const auto mass = [&](auto&& kept) {
    return team.sum(before.logits.size, [=](std::int64_t i) {
      return kept(before.logits[i]) ? before.weight(i) : Real(0);
    });
  };
  const double wanted = static_cast<double>(p) * mass([](Real) { return true; });
  const Real cut = keys::value(detail::largest_key<Real>(before.maximum, [&](auto key) {
    const Real at = keys::value(key);
    return mass([at](Real x) { return x >= at; }) >= wanted;
  }));
  const double missing = wanted - mass([cut](Real x) { return x > cut; });
  const auto ties = static_cast<double>(
      detail::count_kept(team, before, [=](std::int64_t i) { return before.logits[i] == cut; }));
  const auto each = static_cast<double>(exp2_product(cut - before.maximum, before.scale));
  double needed = each > 0.0 ? std::ceil(missing / each) : ties;
  needed = needed < 1.0 ? 1.0 : needed;
  needed = needed > ties ? ties : needed;
  detail::cut_at(team, l, cut, static_cast<std::int32_t>(needed));
}

/// Keeps the elements whose weight is at least the share `least` of the largest; 0 < least <= 1.
/// (Nguyen et al. 2024, arXiv:2407.01082)
template <class Real, Team T>
HUNCH_HOST_DEVICE void keep_min_p(T&, law<Real>& l, Real least) {
  const double log2_least = log_of(static_cast<double>(least)) * 1.4426950408889634074;
  const Real cut = l.maximum + static_cast<Real>(log2_least / static_cast<double>(l.scale));
  if (cut > l.threshold) {
    l.threshold = cut;
    l.last_kept = std::numeric_limits<std::int32_t>::max();
  }
}

/// Sums the kept weights and sets the norm. Reads the row once.
template <class Real, Team T>
HUNCH_HOST_DEVICE void normalise(T& team, law<Real>& l) {
  const law<Real> before = l;
  const double sum = team.sum(before.logits.size, [=](std::int64_t i) { return before.weight(i); });
  l.norm = static_cast<Real>(1.0 / sum);
}

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/kernel/arithmetic.hpp>
#include <hunch/law.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Where to cut a law: the largest logit such that what lies at or above it measures enough. Few
/// passes over the row narrow a bracket by interpolation; what is left in it is collected and
/// searched exactly. A row in which that fails (thousands of equal logits) is bisected.

namespace hunch::kernel {

/// The largest cut that keeps enough: logits above `value` measure `above`, less than what is
/// wanted, and with the `ties` logits equal to it they measure enough.
template <class Real>
struct cut {
  Real value;
  double above;
  std::int32_t ties;
};

// The tests of elements have no branches (& and not &&), so that their loops vectorise.

/// 1 for the elements of a law that are kept and at least `least`, else 0.
template <class Real>
struct counted_at_least {
  law<Real> l;
  Real least;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t of(Real x, std::int64_t i) const {
    return int(l.keeps(x, i)) & int(x >= least);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t operator()(std::int64_t i) const {
    return of(l.logits.data[i], i);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE bool is_aligned() const { return l.is_aligned(); }
  HUNCH_HOST_DEVICE HUNCH_INLINE team::four<std::int32_t> four(std::int64_t i) const {
    const auto x = team::load_four(l.logits.data + i);
    return {{of(x[0], i), of(x[1], i + 1), of(x[2], i + 2), of(x[3], i + 3)}};
  }
};

/// The weights of these elements.
template <class Real>
struct weight_at_least {
  law<Real> l;
  Real least;

  HUNCH_HOST_DEVICE HUNCH_INLINE Real of(Real x, std::int64_t i) const {
    const Real w = l.weight_of(x, i);
    return x >= least ? w : Real(0);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE Real operator()(std::int64_t i) const {
    return of(l.logits.data[i], i);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE bool is_aligned() const { return l.is_aligned(); }
  HUNCH_HOST_DEVICE HUNCH_INLINE team::four<Real> four(std::int64_t i) const {
    const auto x = team::load_four(l.logits.data + i);
    return {{of(x[0], i), of(x[1], i + 1), of(x[2], i + 2), of(x[3], i + 3)}};
  }
};

/// The same of a law that nothing restricts.
template <class Real>
struct whole_weight_at_least {
  whole_law<Real> l;
  Real least;

  HUNCH_HOST_DEVICE HUNCH_INLINE Real operator()(std::int64_t i) const {
    const Real w = l.weight(i);
    return l.logits.data[i] >= least ? w : Real(0);
  }
};

/// What is measured of each element: 1, for a number of elements.
struct element_count {
  template <class Real>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Real>&, Real) {
    return 1.0;
  }
  template <Team T, class Real>
  HUNCH_HOST_DEVICE static double at_least(T& team, const law<Real>& l, Real least) {
#if !defined(__CUDA_ARCH__)
    if (whole_law<Real>::fits(l)) {  // the test of what is kept is half of the loop
      const Real* const x = l.logits.data;
      return static_cast<double>(team.reduce(
          l.size(), std::int32_t(0), [=](std::int64_t i) { return int(x[i] >= least); },
          [](std::int32_t a, std::int32_t b) { return a + b; }));
    }
#endif
    return static_cast<double>(team.reduce(l.size(), std::int32_t(0),
                                           counted_at_least<Real>{l, least},
                                           [](std::int32_t a, std::int32_t b) { return a + b; }));
  }
};

/// What is measured of each element: its weight.
struct element_weight {
  template <class Real>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Real>& l, Real x) {
    return static_cast<double>(exp2_product(x - l.maximum, l.scale));
  }
  template <Team T, class Real>
  HUNCH_HOST_DEVICE static double at_least(T& team, const law<Real>& l, Real least) {
#if !defined(__CUDA_ARCH__)
    if (whole_law<Real>::fits(l)) {
      return team.sum(l.size(), whole_weight_at_least<Real>{whole_law<Real>{l}, least});
    }
#endif
    return team.sum(l.size(), weight_at_least<Real>{l, least});
  }
};

namespace detail {

/// The cut lies in [low, high): enough lies at or above `low`, not enough at or above `high`.
template <class Real>
struct bracket {
  Real low;
  Real high;
  double at_low;
  double at_high;

  HUNCH_HOST_DEVICE void tighten(Real at, double measure, double wanted) {
    if (measure >= wanted) {
      low = at;
      at_low = measure;
    } else {
      high = at;
      at_high = measure;
    }
  }
};

/// The log-odds of a measure's share of the whole: nearly linear in the logit for rows of many
/// kinds, and so what is interpolated.
HUNCH_HOST_DEVICE inline double log_odds(double measure, double total) {
  const double least = 1e-9 * total;
  const double rest = total - measure;
  return log_of((measure > least ? measure : least) / (rest > least ? rest : least));
}

/// Narrows [-inf, above the maximum) until at most about `list_capacity` elements can be in it.
template <class Measure, Team T, class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE bracket<Real> narrow(T& team, const law<Real>& l,
                                                              double wanted, double total) {
  constexpr Real lowest = -infinity<Real>;
  using keys = order<Real>;
  bracket<Real> b{lowest, keys::value(keys::of(l.maximum) + 1), total, 0.0};
  if (l.size() <= team::list_capacity) { return b; }
  const auto probe = [&](Real at) { b.tighten(at, Measure::at_least(team, l, at), wanted); };
  // Somewhere within some powers of two of the maximum, for nearly every law.
  for (int octaves = 8; b.low == lowest && octaves <= 128; octaves *= 2) {
    probe(l.maximum - static_cast<Real>(octaves) / l.scale);
  }
  if (b.low == lowest) { return b; }
  // About where the measure is what is wanted, and a little to either side of it: an end of the
  // bracket that stays where it is would make interpolation crawl.
  for (int round = 0; round < 8; ++round) {
    const double between = b.at_low - b.at_high;
    if (between <= team::list_capacity * Measure::of(l, b.low)) { break; }  // no more elements
    const double low = log_odds(b.at_low, total);
    const double share = (low - log_odds(wanted, total)) / (low - log_odds(b.at_high, total));
    const Real width = b.high - b.low;
    const Real middle = b.low + static_cast<Real>(share) * width;
    const double elements = between / Measure::of(l, middle);  // about so many
    const double aside = 0.25 * team::list_capacity / elements;
    const Real step = static_cast<Real>(aside < 0.125 ? aside : 0.125) * width;
    if (!(step > Real(0))) { break; }
    for (int side = -1; side <= 1; side += 2) {
      const Real at = side < 0 ? middle - step : middle + step;
      if (at > b.low && at < b.high) { probe(at); }
    }
    if (b.high - b.low > width / 2) { probe(b.low + (b.high - b.low) / 2); }
  }
  return b;
}

/// The largest key k in [low, high) with enough(k), where enough(low).
template <class Key, class Enough>
HUNCH_HOST_DEVICE Key largest_key(Key low, Key high, Enough&& enough) {
  --high;
  while (low < high) {
    const Key middle = (low | high) - ((low ^ high) >> 1);  // rounded up, without overflow
    if (enough(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace detail

/// Where to cut `l` so that what it keeps measures at least `wanted` > 0 of `total`, its measure
/// before. Elements of weight 0 are never counted. Collective.
template <class Measure, Team T, class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE cut<Real> find_cut(T& team, const law<Real>& l,
                                                            double wanted, double total) {
  using keys = order<Real>;
  using key = typename keys::key;
  const detail::bracket<Real> b = detail::narrow<Measure>(team, l, wanted, total);
  constexpr Real lowest = -infinity<Real>;
  const auto between = [=](std::int64_t i) {
    const Real x = l.logits[i];
    return (int(x >= b.low) & int(x < b.high) & int(x > lowest)) != 0;
  };
  const auto inside = [=](std::int64_t i) { return (int(l.keeps(i)) & int(between(i))) != 0; };
  const auto key_of = [=](std::int64_t i) { return keys::of(l.logits[i]); };
#if !defined(__CUDA_ARCH__)
  const bool whole = whole_law<Real>::fits(l);
#else
  constexpr bool whole = false;
#endif
  const std::int64_t* const list = team.scratch().list;
  const std::int32_t count = whole ? team.compact(l.size(), between, key_of, team::list_capacity)
                                   : team.compact(l.size(), inside, key_of, team::list_capacity);
  const key low = keys::of(b.low);
  const key high = keys::of(b.high);
  if (count <= team::list_capacity) {
    // Sums in integers, so that the order of the list does not matter.
    constexpr double unit = 0x1.0p51;
    const auto measure = [=](std::int32_t i) {
      return static_cast<std::int64_t>(Measure::of(l, keys::value(static_cast<key>(list[i]))) *
                                       unit);
    };
    const auto sum = [&](key least) {
      return b.at_high + static_cast<double>(team.reduce(
                             count, std::int64_t(0),
                             [=](std::int64_t i) {
                               return list[i] >= least ? measure(static_cast<std::int32_t>(i))
                                                       : std::int64_t(0);
                             },
                             [](std::int64_t x, std::int64_t y) { return x + y; })) /
                             unit;
    };
    // The smallest element is the last resort where rounding leaves nothing enough.
    const key smallest = static_cast<key>(team.reduce(
        count, std::int64_t(high), [=](std::int64_t i) { return list[i]; },
        [](std::int64_t x, std::int64_t y) { return x < y ? x : y; }));
    const key found = detail::largest_key(smallest < high ? smallest : low, high,
                                          [&](key k) { return sum(k) >= wanted; });
    const std::int32_t ties = team.reduce(
        count, std::int32_t(0), [=](std::int64_t i) { return list[i] == found ? 1 : 0; },
        [](std::int32_t x, std::int32_t y) { return x + y; });
    return {keys::value(found), sum(found + 1), ties};
  }
  const key found = detail::largest_key(
      low, high, [&](key k) { return Measure::at_least(team, l, keys::value(k)) >= wanted; });
  const Real value = keys::value(found);
  const auto ties =
      static_cast<std::int32_t>(element_count::at_least(team, l, value) -
                                element_count::at_least(team, l, keys::value(found + 1)));
  return {value, Measure::at_least(team, l, keys::value(found + 1)), ties};
}

}  // namespace hunch::kernel

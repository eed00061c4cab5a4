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

/// What is measured of each element that a law keeps: 1, for a number of elements.
struct element_count {
  template <class L>
  HUNCH_HOST_DEVICE static HUNCH_INLINE auto term(const L& l, typename L::real x, std::int64_t i) {
    using real = typename L::real;
    return l.keeps(x, i) ? real(1) : real(0);
  }
  template <class Real>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Real>&, Real) {
    return 1.0;
  }
};

/// What is measured of each element that a law keeps: its weight.
struct element_weight {
  template <class L>
  HUNCH_HOST_DEVICE static HUNCH_INLINE auto term(const L& l, typename L::real x, std::int64_t i) {
    return l.weight_of(x, i);
  }
  template <class Real>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Real>& l, Real x) {
    return static_cast<double>(exp2_product(x - l.maximum, l.scale));
  }
};

/// The measure of the elements that are at least `least`, 0 of the others. A `team::Vectorised`
/// function; without branches, so that its loops vectorise.
template <class Measure, class L>
struct measured_at_least {
  using real = typename L::real;

  L l;
  real least;

  HUNCH_HOST_DEVICE HUNCH_INLINE real of(real x, std::int64_t i) const {
    const real m = Measure::term(l, x, i);
    return x >= least ? m : real(0);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t i) const {
    return of(l.logits.data[i], i);
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE bool is_aligned() const { return l.is_aligned(); }
  HUNCH_HOST_DEVICE HUNCH_INLINE team::four<real> four(std::int64_t i) const {
    const auto x = team::load_four(l.logits.data + i);
    return {{of(x[0], i), of(x[1], i + 1), of(x[2], i + 2), of(x[3], i + 3)}};
  }
};

/// use(l), or use(`whole_law` of it) where nothing restricts it: the test of what is kept is half
/// of a loop that does little. On a device, which waits for memory, it costs nothing.
template <class Real, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_whole(const law<Real>& l, const Use& use) {
#if !defined(__CUDA_ARCH__)
  if (whole_law<Real>::fits(l)) { return use(whole_law<Real>{l}); }
#endif
  return use(l);
}

/// The measure of what lies at or above `least`. Reads the row once.
template <class Measure, Team T, class Real>
HUNCH_HOST_DEVICE double measure_at_least(T& team, const law<Real>& l, Real least) {
  return with_whole(l, [&]<class L>(const L& of) {
    return team.sum(l.size(), measured_at_least<Measure, L>{of, least});
  });
}

namespace detail {

/// The cut lies in [low, high): `at_low` >= what is wanted lies at or above `low`, `at_high` < it
/// at or above `high`.
template <class Real>
struct bracket {
  Real low;
  Real high;
  double at_low;
  double at_high;
};

/// Terms of a sample of a row: of every `stride` rows of lanes one. A `team::Strided` function.
template <class Terms>
struct sampled_terms {
  Terms terms;
  std::int64_t stride;

  HUNCH_HOST_DEVICE HUNCH_INLINE std::int64_t at(std::int64_t i) const {
    return i / team::lane_count * team::lane_count * stride + i % team::lane_count;
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE auto operator()(std::int64_t i) const { return terms(at(i)); }
  HUNCH_HOST_DEVICE HUNCH_INLINE auto lanes_at(std::int64_t base) const {
    return [of = terms, first = at(base)](std::int64_t l) HUNCH_INLINED { return of(first + l); };
  }
};

/// Elements of a sample of a row: few, to find the place, or enough to tell it to within a list.
inline constexpr std::int64_t coarse_sample = 2048;
inline constexpr std::int64_t fine_sample = 16384;

/// Says from samples of a row where its cut may be.
template <class Measure, Team T, class Real>
struct cut_estimate {
  T& team;
  const law<Real>& l;
  double wanted;

  /// What a sample of about `elements` lets expect at or above `least`.
  template <class Of = Measure>
  HUNCH_HOST_DEVICE double sampled(std::int64_t elements, Real least) const {
    return with_whole(l, [&]<class L>(const L& of) {
      using terms = sampled_terms<measured_at_least<Of, L>>;
      const std::int64_t stride = l.size() / elements < 1 ? 1 : l.size() / elements;
      const std::int64_t rows = l.size() / (team::lane_count * stride);
      return static_cast<double>(stride) *
             team.sum(rows * team::lane_count, terms{{of, least}, stride});
    });
  }

  /// Everything within some powers of two of the maximum, if that is likely to be enough and yet
  /// few elements: so it is in nearly every law of a language model.
  HUNCH_HOST_DEVICE bool near_maximum(bracket<Real>& b) const {
    if (l.size() <= team::list_capacity) { return true; }
    Real least = b.high;
    for (int octaves = 4; octaves <= 64; octaves *= 2) {
      const Real wider = l.maximum - static_cast<Real>(octaves) / l.scale;
      if (sampled<element_count>(coarse_sample, wider) > 0.5 * team::list_capacity) { break; }
      least = wider;
    }
    if (least == b.high) { return false; }
    // By what is below: of the few above, none may be in the sample.
    const double below = sampled(coarse_sample, -infinity<Real>) - sampled(coarse_sample, least);
    if (below > 2.0 * (b.at_low - wanted)) { return false; }
    b.low = least;
    return true;
  }

  /// Sets [low, high) to about half a list of elements around the cut.
  HUNCH_HOST_DEVICE void around_cut(const bracket<Real>& b, Real& low, Real& high) const {
    low = b.low;
    high = b.high;
    // From the end that is nearer: the few elements at the other may be in no sample.
    const double below = b.at_low - wanted;
    const double above = wanted - b.at_high;
    const auto sought = [&](double at_low, double at_high) {
      return below < above ? at_low - below : at_high + above;
    };
    double at_low = sampled(coarse_sample, low);
    double at_high = sampled(coarse_sample, high);
    const double coarse = sought(at_low, at_high);
    const auto elements = [&] { return (at_low - at_high) / Measure::of(l, low); };
    constexpr double few = 0.4 * team::list_capacity;
    const Real least = l.maximum - Real(127) / l.scale;  // where weights end
    low = low < least ? least : low;
    while (elements() > 4.0 * few) {
      const Real at = low + (high - low) / 2;
      if (!(at > low && at < high)) { return; }
      const double found = sampled(coarse_sample, at);
      if (found >= coarse) {
        low = at;
        at_low = found;
      } else {
        high = at;
        at_high = found;
      }
    }
    // In so little the sums are nearly a line.
    const double fine = sought(sampled(fine_sample, b.low), sampled(fine_sample, b.high));
    at_low = sampled(fine_sample, low);
    at_high = sampled(fine_sample, high);
    const double share = (at_low - fine) / (at_low - at_high);
    const double aside = few / elements();
    const Real width = high - low;
    const auto left = static_cast<Real>(share - aside);
    const auto right = static_cast<Real>(share + aside);
    if (!(left > Real(-8) && right < Real(9))) { return; }
    const Real from = low;
    low = from + product(left, width);
    high = from + product(right, width);
    low = low > b.low ? low : b.low;
    high = high < b.high ? high : b.high;
  }
};

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

/// The largest of the `count` keys in the team's list such that what lies at or above it measures
/// enough: measure(key) is that of one element, and the bracket is where the keys lie. The cut's
/// `ties` are 0 where all of them are not enough. Sums are of integers, so that neither the order
/// of the list matters nor which keys are tried.
template <Team T, class Real, class Measure>
HUNCH_HOST_DEVICE cut<Real> cut_of_list(T& team, std::int32_t count, const bracket<Real>& b,
                                        double wanted, const Measure& measure) {
  using keys = order<Real>;
  using key = typename keys::key;
  constexpr double unit = 0x1.0p51;
  const std::int64_t* const list = team.scratch().list;
  const auto units = [=](std::int64_t k) {
    return static_cast<std::int64_t>(measure(static_cast<key>(k)) * unit);
  };
  const auto sum = [&](key least) {
    return team.reduce(
        count, std::int64_t(0),
        [=](std::int64_t i) { return list[i] >= least ? units(list[i]) : std::int64_t(0); },
        [](std::int64_t x, std::int64_t y) { return x + y; });
  };
  const auto measured = [&](std::int64_t of) { return b.at_high + static_cast<double>(of) / unit; };
  const auto enough = [&](std::int64_t of) { return measured(of) >= wanted; };
  const key smallest = static_cast<key>(team.reduce(
      count, std::int64_t(keys::of(b.high)), [=](std::int64_t i) { return list[i]; },
      [](std::int64_t x, std::int64_t y) { return x < y ? x : y; }));
  key low = smallest;
  key high = keys::of(b.high);
  std::int64_t at_low = count == 0 ? 0 : sum(low);
  std::int64_t at_high = 0;
  if (!enough(at_low)) { return {keys::value(low), b.at_high, 0}; }
  // Sums between close keys are nearly a line. To either side of where it says, in turn, so that
  // both ends come near.
  constexpr double few = 16.0;
  for (double elements = count; elements > few;) {
    const auto between = static_cast<double>(at_low - at_high);
    const double share = (measured(at_low) - wanted) * unit / between;
    const double aside = 1.0 / std::sqrt(elements);
    const double left = share > aside && share < 1.0 - aside ? share - aside : 0.5;
    const double right = share > aside && share < 1.0 - aside ? share + aside : 0.5;
    const auto width = static_cast<double>(static_cast<std::int64_t>(high) - low);
    const key first = low + static_cast<key>(left * width);
    const key second = low + static_cast<key>(right * width);
    if (first <= low || second >= high) { break; }
    const std::int64_t at_first = sum(first);
    if (!enough(at_first)) {
      high = first;
      at_high = at_first;
    } else {
      low = first;
      at_low = at_first;
      if (second > first) {
        const std::int64_t at_second = sum(second);
        if (!enough(at_second)) {
          high = second;
          at_high = at_second;
        } else {
          low = second;
          at_low = at_second;
        }
      }
    }
    elements = elements * static_cast<double>(at_low - at_high) / between;
  }
  // From above, key by key.
  for (;;) {
    const auto next = static_cast<key>(team.reduce(
        count, std::int64_t(smallest),
        [=](std::int64_t i) { return list[i] < high ? list[i] : std::int64_t(smallest); },
        [](std::int64_t x, std::int64_t y) { return x > y ? x : y; }));
    const std::int32_t ties = team.reduce(
        count, std::int32_t(0), [=](std::int64_t i) { return list[i] == next ? 1 : 0; },
        [](std::int32_t x, std::int32_t y) { return x + y; });
    const std::int64_t at_next = at_high + ties * units(next);
    if (enough(at_next) || next <= smallest) {
      return {keys::value(next), measured(at_high), ties};
    }
    high = next;
    at_high = at_next;
  }
}

}  // namespace detail

/// Where to cut `l` so that what it keeps measures at least `wanted` > 0 of `total`, its measure
/// before. Elements of weight 0 are never counted. Collective.
template <class Measure, Team T, class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE cut<Real> find_cut(T& team, const law<Real>& l,
                                                            double wanted, double total) {
  using keys = order<Real>;
  using key = typename keys::key;
  constexpr Real lowest = -infinity<Real>;
  const detail::cut_estimate<Measure, T, Real> estimate{team, l, wanted};
  const auto measure = [=](key k) { return Measure::of(l, keys::value(k)); };
  detail::bracket<Real> b{lowest, keys::value(keys::of(l.maximum) + 1), total, 0.0};
  constexpr int attempts = 8;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    // A part of the bracket that is likely to hold the cut and goes into a list.
    detail::bracket<Real> part = b;
    if (attempt > 0 || !estimate.near_maximum(part)) {
      estimate.around_cut(b, part.low, part.high);
    }
    if (part.high < b.high) {
      part.at_high = measure_at_least<Measure>(team, l, part.high);
      if (part.at_high >= wanted) {
        b.low = part.high;
        b.at_low = part.at_high;
        continue;
      }
      b.high = part.high;
      b.at_high = part.at_high;
    }
    const auto between = [=](std::int64_t i) {
      const Real x = l.logits.data[i];
      return (int(x >= part.low) & int(x < part.high) & int(x > lowest)) != 0;
    };
    const auto inside = [=](std::int64_t i) { return (int(l.keeps(i)) & int(between(i))) != 0; };
    const auto key_of = [=](std::int64_t i) { return keys::of(l.logits.data[i]); };
#if !defined(__CUDA_ARCH__)
    const bool whole = whole_law<Real>::fits(l);
#else
    constexpr bool whole = false;
#endif
    const std::int32_t count = whole ? team.compact(l.size(), between, key_of, team::list_capacity)
                                     : team.compact(l.size(), inside, key_of, team::list_capacity);
    if (count <= team::list_capacity) {
      const cut<Real> c = detail::cut_of_list(team, count, part, wanted, measure);
      // What rounding left out of a list that holds everything is not found anywhere else.
      if (c.ties > 0 || part.low == b.low) { return c; }
      b.high = part.low;
      b.at_high = measure_at_least<Measure>(team, l, part.low);
      if (b.at_high >= wanted) { break; }
    } else if (part.low > b.low) {
      const double at_low = measure_at_least<Measure>(team, l, part.low);
      if (at_low >= wanted) {
        b.low = part.low;
        b.at_low = at_low;
      } else {
        b.high = part.low;
        b.at_high = at_low;
      }
    } else if (part.high == b.high) {
      break;  // thousands of equal logits
    }
  }
  const key found = detail::largest_key(keys::of(b.low), keys::of(b.high), [&](key k) {
    return measure_at_least<Measure>(team, l, keys::value(k)) >= wanted;
  });
  const Real value = keys::value(found);
  const Real above = keys::value(found + 1);
  const auto ties = static_cast<std::int32_t>(measure_at_least<element_count>(team, l, value) -
                                              measure_at_least<element_count>(team, l, above));
  return {value, measure_at_least<Measure>(team, l, above), ties};
}

}  // namespace hunch::kernel

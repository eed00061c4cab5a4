// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include <hunch/kernel/arithmetic.hpp>
#include <hunch/law.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Where to cut a law: the largest logit such that what lies at or above it measures enough. Few
/// passes over the row narrow a bracket by interpolation; what is left in it is collected and
/// searched exactly. A row in which that fails (thousands of equal logits) is bisected.

namespace hunch::kernel {

/// The largest cut that keeps enough: logits above `value` measure `above`, less than what is
/// wanted, and with the `ties` logits equal to it they measure enough; 0 where rounding leaves
/// nothing that does.
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

/// The cut lies in [low, high): at or above `low` lies what is wanted and `spare` more, at or above
/// `high` less than what is wanted, `at_high`.
template <class Real>
struct bracket {
  Real low;
  Real high;
  float spare;
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
inline constexpr std::int32_t coarse_sample = 2048;
inline constexpr std::int32_t fine_sample = 16384;

/// Says from samples of a row where its cut may be. What samples say is no better than a float, and
/// on a device registers are few.
template <class Measure, Team T, class Real>
struct cut_estimate {
  T& team;
  const law<Real>& l;
  double wanted;

  /// What a sample of about `elements` lets expect at or above `least`.
  template <class Of = Measure>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE float sampled(std::int32_t elements, Real least) const {
    return with_whole(l, [&]<class L>(const L& of) {
      using terms = sampled_terms<measured_at_least<Of, L>>;
      const std::int32_t stride = l.logits.size < elements ? 1 : l.logits.size / elements;
      const std::int32_t rows = l.logits.size / (team::lane_count * stride);
      return static_cast<float>(
          static_cast<double>(stride) *
          team.sum(std::int64_t{rows} * team::lane_count, terms{{of, least}, stride}));
    });
  }

  /// Everything within some powers of two of the maximum, if that is likely to be enough and yet
  /// few elements: so it is in nearly every law of a language model.
  HUNCH_HOST_DEVICE bool near_maximum(const bracket<Real>& b, Real& low) const {
    low = b.low;
    if (l.size() <= team::list_capacity) { return true; }
    Real least = b.high;
    HUNCH_ROLLED
    for (int octaves = 4; octaves <= 64; octaves *= 2) {
      const Real wider = l.maximum - static_cast<Real>(octaves) / l.scale;
      if (sampled<element_count>(coarse_sample, wider) > 0.5f * team::list_capacity) { break; }
      least = wider;
    }
    if (least == b.high) { return false; }
    // By what is below: of the few above, none may be in the sample.
    float below = 0.0f;
    HUNCH_ROLLED
    for (int end = 0; end < 2; ++end) {
      below = sampled(coarse_sample, end == 0 ? least : -infinity<Real>) - below;
    }
    if (below > 2.0f * b.spare) { return false; }
    low = least;
    return true;
  }

  /// Sets [low, high) to about half a list of elements around the cut. A small sample tells the
  /// place; then a larger one tells it to within a list, in so little that sums are nearly a line.
  HUNCH_HOST_DEVICE void around_cut(const bracket<Real>& b, Real& low, Real& high) const {
    constexpr float few = 0.4f * team::list_capacity;
    const Real end = l.maximum - Real(127) / l.scale;  // of weights
    low = b.low < end ? end : b.low;
    high = b.high;
    // From the end that is nearer: the few elements at the other may be in no sample.
    const bool from_low = b.spare < static_cast<float>(wanted - b.at_high);
    float sought = 0.0f;
    float at_low = 0.0f;
    float at_high = 0.0f;
    std::int32_t elements = coarse_sample;
    int step = 0;
    HUNCH_ROLLED
    for (;;) {
      Real at = step == 1 ? low : high;
      if (step == 0) { at = from_low ? b.low : b.high; }
      if (step > 2) {
        at = low + (high - low) / 2;
        if (!(at > low && at < high)) { return; }
      }
      const float found = sampled(elements, at);
      if (step == 0) {
        sought = from_low ? found - b.spare : found + static_cast<float>(wanted - b.at_high);
      } else if (step == 1 || (step > 2 && found >= sought)) {
        low = at;
        at_low = found;
      } else {
        high = at;
        at_high = found;
      }
      if (++step <= 2) { continue; }
      const float between = (at_low - at_high) / static_cast<float>(Measure::of(l, low));
      if (elements == coarse_sample) {
        if (between <= 4.0f * few) {
          elements = fine_sample;
          step = 0;
        }
        continue;
      }
      const float share = (at_low - sought) / (at_low - at_high);
      // What lies below weighs less by element, and so its sum in the sample is known to within
      // the root of this.
      const auto weight = static_cast<float>(Measure::of(l, low));
      const float known =
          3.0f * std::sqrt(b.spare * static_cast<float>(l.logits.size / fine_sample) / weight) +
          64.0f;
      const float aside = (from_low && known < few ? known : few) / between;
      const float left = share - aside;
      const float right = share + aside;
      if (!(left > -8.0f && right < 9.0f)) { return; }
      const Real from = low;
      const Real width = high - low;
      low = from + product(static_cast<Real>(left), width);
      high = from + product(static_cast<Real>(right), width);
      low = low > b.low ? low : b.low;
      high = high < b.high ? high : b.high;
      return;
    }
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
/// enough: measure(key) is that of one element, and the keys are at least `least` and inside of the
/// bracket. The cut's `ties` are 0 where all of them are not enough. Sums are of integers, so that
/// neither the order of the list matters nor which keys are tried.
template <Team T, class Real, class Measure>
HUNCH_HOST_DEVICE cut<Real> cut_of_list(T& team, std::int32_t count, Real least,
                                        const bracket<Real>& b, double wanted,
                                        const Measure& measure) {
  using keys = order<Real>;
  using key = typename keys::key;
  constexpr double unit = 0x1.0p51;
  const std::int64_t* const list = team.scratch().list;
  const auto units = [=](std::int64_t k) {
    return static_cast<std::int64_t>(measure(static_cast<key>(k)) * unit);
  };
  const auto sum = [&](key from) {
    return team.reduce(
        count, std::int64_t(0),
        [=](std::int64_t i) {
          const std::int64_t u = units(list[i]);  // of all, so that the loop vectorises
          return list[i] >= from ? u : std::int64_t(0);
        },
        [](std::int64_t x, std::int64_t y) { return x + y; });
  };
  const auto measured = [&](std::int64_t of) { return b.at_high + static_cast<double>(of) / unit; };
  const auto enough = [&](std::int64_t of) { return measured(of) >= wanted; };
  const auto ties_of = [&](key k) {
    return team.reduce(
        count, std::int32_t(0), [=](std::int64_t i) { return list[i] == k ? 1 : 0; },
        [](std::int32_t x, std::int32_t y) { return x + y; });
  };
  if constexpr (!std::same_as<T, team::serial>) {
    // Many threads need no more time for a sum than for a key, and few registers this way.
    const key found =
        largest_key(keys::of(least), keys::of(b.high), [&](key k) { return enough(sum(k)); });
    const std::int64_t above = sum(found + 1);
    const std::int32_t ties = ties_of(found);
    return {keys::value(found), measured(above), enough(above + ties * units(found)) ? ties : 0};
  }
  // One thread keeps in the list what may be the cut, and asks for few sums: between close keys
  // they are nearly a line. To either side of where it says, in turn, so that both ends come near.
  key high = keys::of(b.high);
  key low = static_cast<key>(team.reduce(
      count, std::int64_t(high), [=](std::int64_t i) { return list[i]; },
      [](std::int64_t x, std::int64_t y) { return x < y ? x : y; }));
  std::int64_t at_low = count == 0 ? 0 : sum(low);
  std::int64_t at_high = 0;
  if (!enough(at_low)) { return {keys::value(low), b.at_high, 0}; }
  constexpr std::int32_t few = 16;
  constexpr int rounds = 16;
  for (int round = 0; round < rounds && count > few; ++round) {
    const double share = (measured(at_low) - wanted) * unit / static_cast<double>(at_low - at_high);
    const double aside = 1.0 / std::sqrt(static_cast<double>(count));
    const bool between = share > aside && share < 1.0 - aside;
    const double width = static_cast<double>(high) - static_cast<double>(low);
    const bool wide = width >= 0x1.0p62;  // of doubles, whose keys may be further apart than a key
    const key middle = (low & high) + ((low ^ high) >> 1);
    const auto key_at = [=](double part) {
      return wide ? middle
                  : static_cast<key>(std::int64_t{low} + static_cast<std::int64_t>(part * width));
    };
    const key probes[] = {key_at(between ? share - aside : 0.5),
                          key_at(between ? share + aside : 0.5)};
    if (probes[0] <= low || probes[1] >= high) { break; }
    const std::int64_t above = at_high;
    for (const key at : probes) {
      if (at <= low || at >= high) { continue; }
      const std::int64_t found = above + sum(at);
      if (enough(found)) {
        low = at;
        at_low = found;
      } else {
        high = at;
        at_high = found;
      }
    }
    count = team.compact(
        count, [=](std::int64_t i) { return (int(list[i] >= low) & int(list[i] < high)) != 0; },
        [=](std::int64_t i) { return list[i]; }, team::list_capacity);
  }
  // From above, key by key.
  for (;;) {
    const auto next = static_cast<key>(team.reduce(
        count, std::int64_t(low),
        [=](std::int64_t i) { return list[i] < high ? list[i] : std::int64_t(low); },
        [](std::int64_t x, std::int64_t y) { return x > y ? x : y; }));
    const std::int32_t ties = ties_of(next);
    const std::int64_t at_next = at_high + ties * units(next);
    if (enough(at_next) || next <= low) { return {keys::value(next), measured(at_high), ties}; }
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
  detail::bracket<Real> b{lowest, keys::value(keys::of(l.maximum) + 1),
                          static_cast<float>(total - wanted), 0.0};
  constexpr int attempts = 8;
  HUNCH_ROLLED
  for (int attempt = 0; attempt < attempts; ++attempt) {
    // A part of the bracket that is likely to hold the cut and goes into a list.
    Real low, high = b.high;
    if (attempt > 0 || !estimate.near_maximum(b, low)) { estimate.around_cut(b, low, high); }
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
      const Real x = logits[i];
      return (int(x >= low) & int(x < high) & int(x > lowest)) != 0;
    };
    const auto inside = [=](std::int64_t i) { return (int(l.keeps(i)) & int(between(i))) != 0; };
    const auto key_of = [logits = l.logits.data](std::int64_t i) { return keys::of(logits[i]); };
#if !defined(__CUDA_ARCH__)
    const bool whole = whole_law<Real>::fits(l);
#else
    constexpr bool whole = false;
#endif
    const std::int32_t count = whole ? team.compact(l.size(), between, key_of, team::list_capacity)
                                     : team.compact(l.size(), inside, key_of, team::list_capacity);
    if (count <= team::list_capacity) {
      const cut<Real> c = detail::cut_of_list(team, count, low, b, wanted, measure);
      // What rounding left out of a list that holds everything is not found anywhere else.
      if (c.ties > 0 || low == b.low) { return c; }
    } else if (low == b.low) {
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
  const Real value = keys::value(found);
  const Real above = keys::value(found + 1);
  const auto ties = static_cast<std::int32_t>(measure_at_least<element_count>(team, l, value) -
                                              measure_at_least<element_count>(team, l, above));
  return {value, measure_at_least<Measure>(team, l, above), ties};
}

}  // namespace hunch::kernel

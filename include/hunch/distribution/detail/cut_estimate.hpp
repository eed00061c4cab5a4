// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/measure.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/team.hpp>
#include <hunch/team/tile_sums.hpp>

/// \file
/// Where in a row a cut is likely to be, from samples of it. Which part of the row is searched
/// follows from these estimates, and so the rounding of what is found: they are the same bits on
/// every team, as all sums are.

namespace hunch::kernel::detail {

/// The cut lies in [low, high): at or above `low` lies what is wanted and `spare` more, at or above
/// `high` less than what is wanted, `at_high`.
template <class Real>
struct bracket {
  Real low;
  Real high;
  float spare;
  double at_high;
};

/// Elements of a sample of a row: few, to find the place, or enough to tell it to within a list.
inline constexpr std::int32_t coarse_sample = 2048;
inline constexpr std::int32_t fine_sample = 16384;

/// Says from samples of a row where its cut may be. What samples say is no better than a float, and
/// on a device registers are few.
template <class Measure, Team T, class Logit>
struct cut_estimate {
  using real = real_of<Logit>;

  T& team;
  const law<Logit>& l;
  double wanted;

  /// What a sample of about `elements` lets expect in [least, end).
  template <class Of = Measure>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE float sampled(std::int32_t elements, real least,
                                                         real end = infinity<real>) const {
    return with_least(l, least, [&]<class L>(const L& of, real from) {
      return sum_of(elements, measured_between<Of, L>{of, from, end});
    });
  }
  template <class Terms>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE float sum_of(std::int32_t elements,
                                                        const Terms& terms) const {
    const std::int32_t stride = l.logits.size < elements ? 1 : l.logits.size / elements;
    const std::int32_t rows = l.logits.size / (team::lane_count * stride);
    return static_cast<float>(
        static_cast<double>(stride) *
        team.sum(std::int64_t{rows} * team::lane_count, sampled_terms<Terms>{terms, stride}));
  }

  /// What lies lower has no weight.
  HUNCH_HOST_DEVICE real end_of_weights() const { return l.maximum - real(127) / l.scale; }

  /// The lower end of a bracket, or what is below all but the strangest logits: what is masked is
  /// not measured, and differences of what is are finite.
  HUNCH_HOST_DEVICE static real lowest_of(const bracket<real>& b) {
    constexpr real least = -largest<real> / 4;
    return b.low > least ? b.low : least;
  }

  /// Whether [low, high) is less than the bracket, and not nothing.
  HUNCH_HOST_DEVICE static bool narrows(const bracket<real>& b, real low, real high) {
    return low < high && (low > b.low || high < b.high);
  }

  /// Everything within some powers of two of the maximum, if that is likely to be enough and yet
  /// few elements: so it is in nearly every law of a language model.
  HUNCH_HOST_DEVICE bool near_maximum(const bracket<real>& b, real& low) const {
    low = b.low;
    if (l.size() <= team::list_capacity) { return true; }
    real least = b.high;
    HUNCH_ROLLED
    for (int octaves = 4; octaves <= 64; octaves *= 2) {
      const real wider = l.maximum - static_cast<real>(octaves) / l.scale;
      if (sampled<element_count>(coarse_sample, wider) > 0.5f * team::list_capacity) { break; }
      least = wider;
    }
    if (least == b.high) { return false; }
    // By what is below: of the few above, none may be in the sample.
    float below = 0.0f;
    HUNCH_ROLLED
    for (int end = 0; end < 2; ++end) {
      below = sampled(coarse_sample, end == 0 ? least : lowest_of(b)) - below;
    }
    if (below > 2.0f * b.spare) { return false; }
    low = least;
    return true;
  }

  /// Sets [low, high) to most of a list of elements around the cut, whatever the row is like:
  /// halves the bracket by keys. It is measured from the end at which there is less, so that this
  /// may be as little as rounding would make of a difference.
  HUNCH_HOST_DEVICE void around_cut_by_halves(const bracket<real>& b, real& low, real& high) const {
    using keys = order<real>;
    const real end = end_of_weights();
    real least = lowest_of(b);
    if (Measure::has_end && least < end) { least = end; }
    const bool from_low = b.spare < static_cast<float>(wanted - b.at_high);
    const float sought = from_low ? b.spare : static_cast<float>(wanted - b.at_high);
    low = least;
    high = b.high;
    std::int32_t elements = coarse_sample;
    HUNCH_ROLLED
    for (;;) {
      const bool fine = elements == fine_sample;
      if (sampled<element_count>(elements, low, high) <=
          (fine ? 0.8f : 1.6f) * team::list_capacity) {
        if (fine) { return; }
        elements = fine_sample;
        continue;
      }
      const auto from = keys::of(low);
      const auto to = keys::of(high);
      const real at = keys::value((from & to) + ((from ^ to) >> 1));
      if (!(at > low && at < high)) { return; }
      const float found = sampled(elements, from_low ? least : at, from_low ? at : b.high);
      if (from_low ? found <= sought : found >= sought) {
        low = at;
      } else {
        high = at;
      }
    }
  }

  /// Sets [low, high) to about half a list of elements around the cut. A small sample tells the
  /// place; then a larger one tells it to within a list, in so little that sums are nearly a line.
  /// Returns false where that is not so, or samples contradict each other: there is no such part.
  HUNCH_HOST_DEVICE bool around_cut(const bracket<real>& b, real& low, real& high) const {
    constexpr float few = 0.4f * team::list_capacity;
    const real least = lowest_of(b);
    const real end = end_of_weights();
    low = least < end ? end : least;
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
      real at = step == 1 ? low : high;
      if (step == 0) { at = from_low ? least : b.high; }
      if (step > 2) {
        at = low + (high - low) / 2;
        if (!(at > low && at < high)) { return narrows(b, low, high); }
      }
      const float found = sampled(elements, at);
      if (step == 0) {
        sought = from_low ? found - b.spare : found + static_cast<float>(wanted - b.at_high);
      } else if (step == 1 || (step > 2 && found >= sought)) {
        if (!Measure::has_end && found < sought) { return false; }  // it lies lower
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
      const float known = std::fma(
          3.0f, std::sqrt(b.spare * static_cast<float>(l.logits.size / fine_sample) / weight),
          64.0f);
      const float aside = (from_low && known < few ? known : few) / between;
      const float left = share - aside;
      const float right = share + aside;
      if (!(left > -8.0f && right < 9.0f)) { return narrows(b, low, high); }
      const real from = low;
      const real width = high - low;
      low = from + product(static_cast<real>(left), width);
      high = from + product(static_cast<real>(right), width);
      low = low > b.low ? low : b.low;
      high = high < b.high ? high : b.high;
      return narrows(b, low, high);
    }
  }
};

}  // namespace hunch::kernel::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/detail/measure.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Where in a row a cut is likely to be, from samples of it. Which part of the row is searched
/// follows from these estimates, and so the rounding of what is found: they are the same bits on
/// every team. They are sums of integers, since a sample has no tiles that a rank could hold.

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
    return expected(elements, team::add_up(team, held_units<Of>(elements, least, end)));
  }
  /// The part of it that this rank holds, in units of 2^-43: the measure of an element is at most
  /// 1, and a sum of 2^17 of them is an integer yet.
  template <class Of = Measure>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t held_units(std::int32_t elements,
                                                                   real least, real end) const {
    return with_least(l, least, [&]<class L>(const L& of, real from) {
      return sum_of(elements, measured_between<Of, L>{of, from, end});
    });
  }
  HUNCH_HOST_DEVICE float expected(std::int32_t elements, std::int64_t units) const {
    return static_cast<float>(static_cast<double>(stride_of(elements)) *
                              (static_cast<double>(units) * 0x1.0p-43));
  }
  /// A sample has one of so many rows of lanes.
  HUNCH_HOST_DEVICE std::int32_t stride_of(std::int32_t elements) const {
    return l.logits.size < elements ? 1 : l.logits.size / elements;
  }
  template <class Terms>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int64_t sum_of(std::int32_t elements,
                                                               const Terms& terms) const {
    const std::int64_t step = std::int64_t{team::lane_count} * stride_of(elements);
    const team::element_range own = team::held(team, l.logits.size);
    const std::int64_t first = (own.begin + step - 1) / step;
    const std::int64_t end = smaller((own.end + step - 1) / step, l.logits.size / step);
    const auto units = [terms](std::int64_t i) HUNCH_INLINED {
      // The bits of a sum tell it, without a conversion, so that host loops vectorise.
      constexpr double shift = 0x1.8p52;
      return bit_cast<std::int64_t>(static_cast<double>(terms(i)) * 0x1.0p43 + shift) -
             bit_cast<std::int64_t>(shift);
    };
    const auto add = [](std::int64_t a, std::int64_t b) HUNCH_INLINED { return a + b; };
    if constexpr (team::is_one_thread<T>) {
      return team::on_processor<Terms::compiled_up_to>(
          [=](const auto& units) HUNCH_INLINED {
            std::int64_t lane[team::lane_count] = {};
            for (std::int64_t r = first; r < end; ++r) {
              for (std::int64_t l = 0; l < team::lane_count; ++l) {
                lane[l] += units(r * step + l);
              }
            }
            std::int64_t sum = 0;
            for (const std::int64_t of_lane : lane) { sum += of_lane; }
            return sum;
          },
          units);
    } else {
      const std::int64_t count = end > first ? (end - first) * team::lane_count : 0;
      return team.reduce(
          count, std::int64_t(0),
          [=](std::int64_t i) {
            return units((first + i / team::lane_count) * step + i % team::lane_count);
          },
          add);
    }
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
    // Where many ranks are asked at once, all that may be asked.
    if constexpr (team::spans_ranks<T>) {
      HUNCH_ROLLED
      for (int k = 0; k <= places; ++k) {
        const real least = k < places ? place(k) : lowest_of(b);
        team.put(k, held_units<element_count>(coarse_sample, least, infinity<real>));
        team.put(places + 1 + k, held_units(coarse_sample, least, infinity<real>));
      }
      team.add_up_list(2 * (places + 1));
    }
    int found = -1;
    HUNCH_ROLLED
    for (int k = 0; k < places; ++k) {
      if (answer<element_count>(k, place(k)) > 0.5f * team::list_capacity) { break; }
      found = k;
    }
    if (found < 0) { return false; }
    const real least = place(found);
    // By what is below: of the few above, none may be in the sample.
    float below = 0.0f;
    HUNCH_ROLLED
    for (int end = 0; end < 2; ++end) {
      const int k = end == 0 ? found : places;
      below = answer<Measure>(places + 1 + k, end == 0 ? least : lowest_of(b)) - below;
    }
    if (below > 2.0f * b.spare) { return false; }
    low = least;
    return true;
  }
  /// 4, 8, ..., 64 powers of two below the maximum.
  static constexpr int places = 5;
  HUNCH_HOST_DEVICE real place(int k) const {
    return l.maximum - static_cast<real>(4 << k) / l.scale;
  }
  /// What a small sample lets expect from `least` on: answer k, if there are any.
  template <class Of>
  HUNCH_HOST_DEVICE float answer(int k, real least) const {
    if constexpr (team::spans_ranks<T>) { return expected(coarse_sample, team.scratch().list[k]); }
    return sampled<Of>(coarse_sample, least);
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

  /// Ranks ask of the places of `around_cut` together: of those that it begins with, or of the next
  /// three halves, as a binary tree.
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void ask_places(std::int32_t elements, bool begins,
                                                           real first, real low, real high) const {
    const int count = begins ? 3 : halves_asked;
    HUNCH_ROLLED
    for (int n = 0; n < count; ++n) {
      real at = n == 0 ? first : n == 1 ? low : high;
      if (!begins) {
        // The digits of n + 1 after its first are the way there.
        real from = low;
        real to = high;
        at = from + (to - from) / 2;
        int digit = n < 1 ? 1 : n < 3 ? 2 : 4;
        HUNCH_ROLLED
        while ((digit >>= 1) > 0) {
          (((n + 1) & digit) != 0 ? from : to) = at;
          at = from + (to - from) / 2;
        }
      }
      team.put(n, held_units(elements, at, infinity<real>));
    }
    team.add_up_list(count);
  }
  static constexpr int halves_asked = 7;

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
    [[maybe_unused]] int node = 0;  // of the places that ranks have asked of at once
    HUNCH_ROLLED
    for (;;) {
      const real first = from_low ? least : b.high;
      real at = step == 1 ? low : high;
      if (step == 0) { at = first; }
      if (step > 2) {
        at = low + (high - low) / 2;
        if (!(at > low && at < high)) { return narrows(b, low, high); }
      }
      float found = 0.0f;
      if constexpr (team::spans_ranks<T>) {
        if (step <= 2) { node = step; }
        if (step == 3 || node >= halves_asked) { node = 0; }
        if (node == 0) { ask_places(elements, step == 0, first, low, high); }
        found = expected(elements, team.scratch().list[node]);
      } else {
        found = sampled(elements, at);
      }
      if (step == 0) {
        sought = from_low ? found - b.spare : found + static_cast<float>(wanted - b.at_high);
      } else if (step == 1 || (step > 2 && found >= sought)) {
        if (!Measure::has_end && found < sought) { return false; }  // it lies lower
        low = at;
        at_low = found;
        node = 2 * node + 2;
      } else {
        high = at;
        at_high = found;
        node = 2 * node + 1;
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

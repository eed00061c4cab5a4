// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/distribution/law.hpp>
#include <hunch/team/processor.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What of a law lies at or above a logit: how many elements, or how much weight.

namespace hunch::kernel {

/// What is measured of each element that a law keeps: 1, for a number of elements.
struct element_count {
  static constexpr bool has_end = false;

  template <class L>
  HUNCH_HOST_DEVICE static HUNCH_INLINE auto term(const L& l, typename L::real x, std::int64_t i) {
    using real = typename L::real;
    return l.keeps(x, i) ? real(1) : real(0);
  }
  template <class Logit>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Logit>&, real_of<Logit>) {
    return 1.0;
  }
};

/// What is measured of each element that a law keeps: its weight.
struct element_weight {
  static constexpr bool has_end = true;  ///< 127 octaves below the maximum there is none

  template <class L>
  HUNCH_HOST_DEVICE static HUNCH_INLINE auto term(const L& l, typename L::real x, std::int64_t i) {
    return l.weight_of(x, i);
  }
  template <class Logit>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Logit>& l, real_of<Logit> x) {
    return static_cast<double>(exp2_product(x - l.maximum, l.scale));
  }
};

/// The measure of the elements that are at least `least`, 0 of the others. Without branches, so
/// that its loops vectorise.
template <class Measure, class L>
struct measured_at_least {
  using real = typename L::real;

  L l;
  real least;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t i) const {
    const real x = l.logit(i);
    const real m = Measure::term(l, x, i);
    return x >= least ? m : real(0);
  }
};

/// The measure of the elements in [least, end), 0 of the others.
template <class Measure, class L>
struct measured_between {
  using real = typename L::real;
  static constexpr bool is_whole = requires { typename L::general; };
  static constexpr int compiled_up_to =
      is_whole ? team::up_to_avx512 : team::up_to_avx2;  // see `with_least`

  L l;
  real least;
  real end;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t i) const {
    const real x = l.logit(i);
    const real m = Measure::term(l, x, i);
    return (int(x >= least) & int(x < end)) != 0 ? m : real(0);
  }
};

/// Terms of a sample of a row: of every `stride` rows of lanes one. A `team::Strided` function.
template <class Terms>
struct sampled_terms {
  static constexpr int compiled_up_to = Terms::compiled_up_to;

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

/// use(l, least), or the same of a `whole_law` and the logit at or above which it measures the
/// same: which of equal logits are kept need not be asked where all are, or none, and the test for
/// it is half of a loop that does little. On a device, which waits for memory, it costs nothing.
template <class Logit, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_least(const law<Logit>& l, real_of<Logit> least,
                                               const Use& use) {
#if !defined(__CUDA_ARCH__)
  if (l.last_kept == last_id || least > l.threshold) {
    return use(whole_law<Logit>{l}, least > l.threshold ? least : l.threshold);
  }
#endif
  return use(l, least);
}

/// use(terms), the measure of each element that is at or above `least`, 0 of the others.
template <class Measure, class Logit, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_measured(const law<Logit>& l, real_of<Logit> least,
                                                  const Use& use) {
  // On a host a law that is not whole is rare: in the form that samples have of it.
#if !defined(__CUDA_ARCH__)
  constexpr bool as_sample = true;
#else
  constexpr bool as_sample = false;
#endif
  return with_least(l, least, [&]<class L>(const L& of, real_of<Logit> from) {
    if constexpr (as_sample && std::same_as<L, law<Logit>>) {
      using terms = measured_between<Measure, L>;
      return use(sampled_terms<terms>{terms{of, from, infinity<real_of<Logit>>}, 1});
    } else {
      return use(measured_at_least<Measure, L>{of, from});
    }
  });
}

/// The measure of what lies at or above `least`. Reads the row once.
template <class Measure, Team T, class Logit>
HUNCH_HOST_DEVICE double measure_at_least(T& team, const law<Logit>& l, real_of<Logit> least) {
  return with_measured<Measure>(l, least,
                                [&](const auto& terms) { return team.sum(l.size(), terms); });
}

/// use(terms), terms of the same sums as weights that are drawn from: these, or those of a form
/// that sums have anyway.
template <class Weight, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_sum_form(const Weight& weight, const Use& use) {
  return use(weight);
}
template <class Logit, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE auto with_sum_form(const weights_of<law<Logit>>& weight,
                                                  const Use& use) {
#if !defined(__CUDA_ARCH__)
  return with_measured<element_weight>(weight.law, -infinity<real_of<Logit>>, use);
#else
  return use(weight);
#endif
}

/// The sum of the kept weights, with the group sums in the team's scratch. Reads the row once.
template <Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE double add_weights(T& team, const law<Logit>& l) {
  return with_sum_form(weights_of<law<Logit>>{l},
                       [&](const auto& terms) { return team.sum(l.size(), terms); });
}

/// The same, where the team remembers them without reading the row.
template <Team T, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE double sum_of_weights(T& team, const law<Logit>& l) {
  if (team.last_sum() == l.remembered_as()) { return team::remembered_total(team, l.size()); }
  return add_weights(team, l);
}

}  // namespace hunch::kernel

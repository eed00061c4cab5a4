// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/distribution/law.hpp>
#include <hunch/team/four.hpp>
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
  template <class Real>
  HUNCH_HOST_DEVICE static HUNCH_INLINE double of(const law<Real>&, Real) {
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

/// The measure of the elements in [least, end), 0 of the others.
template <class Measure, class L>
struct measured_between {
  using real = typename L::real;

  L l;
  real least;
  real end;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t i) const {
    const real x = l.logits.data[i];
    const real m = Measure::term(l, x, i);
    return (int(x >= least) & int(x < end)) != 0 ? m : real(0);
  }
};

}  // namespace hunch::kernel

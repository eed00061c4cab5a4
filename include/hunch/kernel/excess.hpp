// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/law.hpp>
#include <hunch/types.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// Children of one node that a rule may test one after the other.
inline constexpr std::int32_t max_siblings = 64;

/// The positions that a draft law without replacement has lost, each with the multiple of q that
/// was taken from p while it was still there.
template <class Real>
struct removed_positions {
  std::int32_t count = 0;
  std::int32_t position[max_siblings];  ///< -1 where there is none
  Real taken[max_siblings];

  HUNCH_HOST_DEVICE removed_positions() {
    for (std::int32_t r = 0; r < max_siblings; ++r) {
      position[r] = -1;
      taken[r] = Real(0);
    }
  }

  HUNCH_HOST_DEVICE void add(std::int32_t at, Real multiple) {
    position[count] = at;
    taken[count++] = multiple;
  }
  HUNCH_HOST_DEVICE bool hold(std::int32_t at) const {
    bool found = false;
    for (std::int32_t r = 0; r < count; ++r) { found |= position[r] == at; }
    return found;
  }
};

/// Removed positions that a loop over tokens compares with: a constant, so that it vectorises.
inline constexpr std::int32_t few_siblings = 4;

/// q's weights without the positions that it has lost.
template <Law Q, std::int32_t Most>
struct remainder {
  Q q;
  const removed_positions<typename Q::real>* removed;

  HUNCH_HOST_DEVICE HUNCH_INLINE typename Q::real operator()(std::int64_t i) const {
    bool gone = false;
    for (std::int32_t r = 0; r < Most; ++r) {
      gone |= removed->position[r] == static_cast<std::int32_t>(i);
    }
    const typename Q::real left = q.weight(i);
    return gone ? typename Q::real(0) : left;
  }
};

/// What a draft law ranges over: every token in order, one range of a permuted head, or any ranges.
enum class list_kind { everything, one_range, ranges };

/// The weight (a p(v) - b q(v))+ of every token v of the target's vocabulary: what a rejected draft
/// leaves of the target's law. q ranges over the positions of a shortlist and is 0 outside.
///
/// Taking q away several times is taking a multiple of it away once, for
/// ((p - b q)+ - c q)+ = (p - (b + c) q)+: the residual after any number of rejected siblings has
/// one more scalar, and nothing is written. Positions that q has lost keep the multiple that was
/// taken before.
/// \tparam Over what q ranges over.
/// \tparam Most the most positions that q may have lost.
template <Law P, Law Q, list_kind Over, std::int32_t Most = 0>
struct excess {
  using real = typename P::real;

  P p;
  Q q;
  shortlist list;
  real a = real(1);
  real b = real(1);
  const removed_positions<real>* removed = nullptr;
  std::int32_t first = 0;  ///< row of the only range

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t v) const {
    if constexpr (Over == list_kind::everything) {
      // An index as wide as v: a narrower one would make the loads of a loop a gather.
      return rest(v, q.weight(v), taken_at(v));
    } else if constexpr (Over == list_kind::one_range) {
      const std::int32_t at = list.token_row[v] - first;
      const bool inside = (at >= 0) & (at < list.size);
      // An index made by a mask: a choice between two loads would keep the loop from vectorising.
      const std::int32_t loaded = at & -static_cast<std::int32_t>(inside);
      return rest(v, q.weight(loaded), inside ? taken_at(at) : real(0));
    } else {
      return of(v, list.position_of(static_cast<token>(v)));
    }
  }

  /// The same for a token whose position is known; -1: it has none.
  HUNCH_HOST_DEVICE HUNCH_INLINE real of(std::int64_t v, std::int64_t at) const {
    const bool inside = at >= 0;
    return rest(v, q.weight(inside ? at : 0), inside ? taken_at(at) : real(0));
  }

 private:
  /// The multiple of q's weight that is taken at a position.
  HUNCH_HOST_DEVICE HUNCH_INLINE real taken_at(std::int64_t at) const {
    real taken = product(b, q.norm);
    for (std::int32_t r = 0; r < Most; ++r) {
      taken = removed->position[r] == static_cast<std::int32_t>(at)
                  ? product(removed->taken[r], q.norm)
                  : taken;
    }
    return taken;
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE real rest(std::int64_t v, real drafted, real taken) const {
    const real left = product(p.weight(v), product(a, p.norm)) - product(drafted, taken);
    return left > real(0) ? left : real(0);
  }
};

namespace detail {

template <Law P, Law Q, class Use>
HUNCH_HOST_DEVICE auto with_fitting_excess(const P& p, const Q& q, const shortlist& list,
                                           typename P::real a, typename P::real b,
                                           const removed_positions<typename P::real>* removed,
                                           Use&& use) {
  const auto call = [&]<std::int32_t Most>(std::integral_constant<std::int32_t, Most>) {
    if (list.is_everything(p.size())) {
      return use(excess<P, Q, list_kind::everything, Most>{p, q, list, a, b, removed});
    }
    if (list.range_count == 1 && list.token_row != nullptr) {
      return use(excess<P, Q, list_kind::one_range, Most>{p, q, list, a, b, removed,
                                                          list.ranges[0].begin});
    }
    return use(excess<P, Q, list_kind::ranges, Most>{p, q, list, a, b, removed});
  };
  if (removed == nullptr) { return call(std::integral_constant<std::int32_t, 0>{}); }
  return removed->count <= few_siblings
             ? call(std::integral_constant<std::int32_t, few_siblings>{})
             : call(std::integral_constant<std::int32_t, max_siblings>{});
}

}  // namespace detail

/// Calls use(excess) with the form that fits the laws and the shortlist.
/// \param removed nullptr: q has lost nothing.
template <Law P, Law Q, class Use>
HUNCH_HOST_DEVICE auto with_excess(const P& p, const Q& q, const shortlist& list,
                                   typename P::real a, typename P::real b,
                                   const removed_positions<typename P::real>* removed, Use&& use) {
  return detail::with_fitting_excess(p, q, list, a, b, removed, use);
}
template <class Real, class Use>
HUNCH_HOST_DEVICE auto with_excess(const law<Real>& p, const law<Real>& q, const shortlist& list,
                                   std::type_identity_t<Real> a, std::type_identity_t<Real> b,
                                   const removed_positions<std::type_identity_t<Real>>* removed,
                                   Use&& use) {
  if (whole_law<Real>::fits(p) && whole_law<Real>::fits(q)) {
    return detail::with_fitting_excess(whole_law<Real>{p}, whole_law<Real>{q}, list, a, b, removed,
                                       use);
  }
  return detail::with_fitting_excess(p, q, list, a, b, removed, use);
}

}  // namespace hunch::kernel

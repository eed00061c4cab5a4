// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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
  std::int32_t position[max_siblings];
  Real taken[max_siblings];
};

/// The weight (a p(v) - b q(v))+ of every token v of the target's vocabulary: what a rejected draft
/// leaves of the target's law. q ranges over the positions of a shortlist and is 0 outside.
///
/// Taking q away several times is taking a multiple of it away once, for
/// ((p - b q)+ - c q)+ = (p - (b + c) q)+: the residual after any number of rejected siblings has
/// one more scalar, and nothing is written. Positions that q has lost keep the multiple that was
/// taken before.
/// \tparam Everything whether position i is token i for the whole vocabulary.
template <Law P, Law Q, bool Everything>
struct excess {
  using real = typename P::real;

  P p;
  Q q;
  shortlist list;
  real a = real(1);
  real b = real(1);
  const removed_positions<real>* removed = nullptr;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t v) const {
    const std::int32_t at =
        Everything ? static_cast<std::int32_t>(v) : list.position_of(static_cast<token>(v));
    return of(v, at);
  }

  /// The same for a token whose position is known; -1: it has none.
  HUNCH_HOST_DEVICE HUNCH_INLINE real of(std::int64_t v, std::int32_t at) const {
    real taken = b;
    if (removed != nullptr) {
      for (std::int32_t r = 0; r < removed->count; ++r) {
        taken = removed->position[r] == at ? removed->taken[r] : taken;
      }
    }
    const real drafted = Everything || at >= 0 ? q.prob(at) : real(0);
    const real rest = product(a, p.prob(v)) - product(taken, drafted);
    return rest > real(0) ? rest : real(0);
  }
};

/// Calls use(excess) with the form that fits the shortlist.
template <Law P, Law Q, class Use>
HUNCH_HOST_DEVICE auto with_excess(const P& p, const Q& q, const shortlist& list,
                                   typename P::real a, typename P::real b,
                                   const removed_positions<typename P::real>* removed, Use&& use) {
  return list.is_everything(p.size()) ? use(excess<P, Q, true>{p, q, list, a, b, removed})
                                      : use(excess<P, Q, false>{p, q, list, a, b, removed});
}

}  // namespace hunch::kernel

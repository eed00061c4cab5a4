// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/law.hpp>
#include <hunch/random.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// The weight (p(v) - q(v))+ where q ranges over the whole vocabulary in token order.
template <class Real>
struct residual_everywhere {
  law<Real> p;
  law<Real> q;

  HUNCH_HOST_DEVICE HUNCH_INLINE Real operator()(std::int64_t v) const {
    const Real rest = p.prob(v) - q.prob(v);
    return rest > Real(0) ? rest : Real(0);
  }
};

/// The weight (p(v) - q(v))+ where q ranges over a shortlist: outside of it q is 0.
template <class Real>
struct residual_over_shortlist {
  law<Real> p;
  law<Real> q;
  shortlist list;

  HUNCH_HOST_DEVICE HUNCH_INLINE Real operator()(std::int64_t v) const {
    const std::int32_t at = list.position_of(static_cast<token>(v));
    const Real rest = p.prob(v) - (at >= 0 ? q.prob(at) : Real(0));
    return rest > Real(0) ? rest : Real(0);
  }
};

/// Draws a token from norm((p - q)+) over the vocabulary of p, or returns -1 if the residual is
/// zero. The remaining mass is summed, never taken as 1 minus something. Collective; reads p's row
/// and q's rows once, and one tile once more.
template <Team T, class Real, class Random>
HUNCH_HOST_DEVICE std::int64_t draw_residual(T& team, const address& where, const law<Real>& p,
                                             const law<Real>& q, const shortlist& list,
                                             const Random& random) {
  const std::int32_t vocab = p.logits.size;
  if (list.is_everything(vocab)) {
    return random.categorical(team, where, vocab, residual_everywhere<Real>{p, q});
  }
  return random.categorical(team, where, vocab, residual_over_shortlist<Real>{p, q, list});
}

}  // namespace hunch::kernel

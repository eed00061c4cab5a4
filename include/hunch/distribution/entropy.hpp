// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// The weight of each element times its logarithm to base 2, 0 for what has no weight.
template <class Logit>
struct weighted_logarithms {
  using real = real_of<Logit>;

  law<Logit> l;

  HUNCH_HOST_DEVICE HUNCH_INLINE real operator()(std::int64_t i) const {
    const real x = l.logit(i);
    const real w = l.weight_of(x, i);
    const real term = product(w, product(x - l.maximum, l.scale));
    return w > real(0) ? term : real(0);  // a logit of -inf is no number here
  }
};

/// The entropy of a law in nats: -sum of p log p, over what it keeps; 0 for a law that carries an
/// error. Collective, in the canonical order; the result is on all ranks. Reads the row once.
template <class Logit, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE double entropy(T& team, const law<Logit>& l) {
  if (l.status != status::ok) { return 0.0; }
  const double sum = team.sum(l.logits.size, weighted_logarithms<Logit>{l});
  const auto norm = static_cast<double>(l.norm);
  // p = w norm, so that log p = log w + log norm.
  const double nats = -log_of(norm) - product(product(sum, norm), 0.69314718055994530942);
  return nats > 0.0 ? nats : 0.0;  // of a point mass, but for rounding
}

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// Drafts on as long as the newest law is sure enough: 1 - sqrt(kappa H) >= lambda for its entropy
/// H in nats, an estimate from below of the probability that a token drawn from it is accepted.
/// (AdaEDL, Agrawal et al. 2024, arXiv:2410.18351, with a lambda that stays; kappa is theirs)
struct entropy {
  static constexpr bool needs_entropy = true;
  struct memory {};

  double lambda = 0.4;  ///< at most 1; the lower, the longer
  double kappa = 0.2;   ///< above 0

  HUNCH_HOST_DEVICE std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  HUNCH_HOST_DEVICE bool continues(memory&, const length_evidence& e) const {
    return 1.0 - std::sqrt(kappa * e.entropy) >= lambda;
  }
  HUNCH_HOST_DEVICE void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

static_assert(LengthPolicy<entropy>);

}  // namespace hunch::length

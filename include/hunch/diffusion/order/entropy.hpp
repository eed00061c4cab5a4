// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/diffusion/order/order.hpp>
#include <hunch/distribution/entropy.hpp>

namespace hunch::diffusion::order {

/// The position with the lowest entropy of its whole law first, the lowest position on ties. Takes
/// one more pass over each row. (Dream's `entropy`, Ye et al. 2025, arXiv:2508.15487)
struct entropy : by_score {
  template <Team T, class Real>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE double score(T& team, const law<Real>& l, token) const {
    return -kernel::entropy(team, l);
  }
};

static_assert(Order<entropy>);

}  // namespace hunch::diffusion::order

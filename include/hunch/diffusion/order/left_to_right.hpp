// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/diffusion/order/order.hpp>

namespace hunch::diffusion::order {

/// The leftmost masked position first, whatever the model says: text from left to right.
struct left_to_right : by_score {
  static constexpr bool of_positions = true;

  template <Team T, class Real>
  HUNCH_HOST_DEVICE double score(T&, const law<Real>&, token) const {
    return 0.0;  // positions decide ties
  }
};

static_assert(Order<left_to_right>);

}  // namespace hunch::diffusion::order

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/diffusion/order/order.hpp>

namespace hunch::diffusion::order {

/// The most confident position first: the one whose token has the largest probability, the lowest
/// position on ties. (LLaDA's low-confidence remasking, Nie et al. 2025, arXiv:2502.09992, one
/// token at a time; Dream's `maskgit_plus`)
struct confidence : by_score {
  template <Team T, class Real>
  HUNCH_HOST_DEVICE double score(T&, const law<Real>& l, token t) const {
    return static_cast<double>(l.prob(t));
  }
};

static_assert(Order<confidence>);

}  // namespace hunch::diffusion::order

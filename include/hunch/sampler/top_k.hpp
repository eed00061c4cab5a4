// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// Keeps the k most probable tokens; of equal ones the lower ids. k = 0 is off.
/// (Fan, Lewis, Dauphin 2018, arXiv:1805.04833)
struct top_k {
  template <Team T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, law<Logit>& l,
                                                           const sampling_parameters& p) const {
    if (p.top_k > 0) { kernel::keep_top_k(team, l, p.top_k); }
  }

  HUNCH_HOST_DEVICE static constexpr bool only_scales(const sampling_parameters& p) {
    return p.top_k <= 0;
  }

  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    const bool valid = p.top_k >= 0;
    p.top_k = sampling_parameters{}.top_k;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LawStage<top_k>);

}  // namespace hunch::sampler

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// Keeps the tokens whose probability is at least `min_p` times that of the most probable one, in
/// the law that earlier stages left. 0 is off. (Nguyen et al. 2024, arXiv:2407.01082)
struct min_p {
  template <Team T, class Logit>
  HUNCH_HOST_DEVICE void operator()(T& team, law<Logit>& l, const sampling_parameters& p) const {
    if (p.min_p > 0.0f) { kernel::keep_min_p(team, l, static_cast<real_of<Logit>>(p.min_p)); }
  }

  HUNCH_HOST_DEVICE static constexpr bool only_scales(const sampling_parameters& p) {
    return p.min_p <= 0.0f;
  }

  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    const bool valid = p.min_p >= 0.0f && p.min_p <= 1.0f;
    p.min_p = sampling_parameters{}.min_p;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LawStage<min_p>);

}  // namespace hunch::sampler

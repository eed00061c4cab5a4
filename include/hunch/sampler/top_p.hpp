// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// Nucleus sampling: the smallest set of most probable tokens that holds at least the share p of
/// the mass that earlier stages left. p = 1 is off. (Holtzman et al. 2020, arXiv:1904.09751)
struct top_p {
  static constexpr bool asks_for_mass = true;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, law<Logit>& l,
                                                           const sampling_parameters& p) const {
    if (p.top_p < 1.0f) { kernel::keep_top_p(team, l, static_cast<real_of<Logit>>(p.top_p)); }
  }

  HUNCH_HOST_DEVICE static constexpr bool only_scales(const sampling_parameters& p) {
    return p.top_p >= 1.0f;
  }

  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    const bool valid = p.top_p > 0.0f && p.top_p <= 1.0f;
    p.top_p = sampling_parameters{}.top_p;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LawStage<top_p>);

}  // namespace hunch::sampler

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/core/arithmetic.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// p(v) proportional to exp(logit(v) / T). T = 0 is the point mass at the argmax, and so is a T
/// below 1e-38, whose inverse is not a finite float.
struct temperature {
  /// A law at a lower temperature is the point mass, for all that a logit's last bit can tell.
  static constexpr float least = 1e-38f;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE void operator()(T& team, law<Logit>& l, const sampling_parameters& p) const {
    if (only_scales(p)) {
      l.scale /= static_cast<real_of<Logit>>(p.temperature);
    } else {
      kernel::keep_argmax(team, l);
    }
  }

  /// Not where the inverse is not finite; nor for -0, whose inverse is -inf.
  HUNCH_HOST_DEVICE static constexpr bool only_scales(const sampling_parameters& p) {
    return p.temperature >= least;
  }

  /// Resets the field to its default where this stage takes care of it.
  HUNCH_HOST_DEVICE static constexpr status take(sampling_parameters& p) {
    const bool valid = p.temperature >= 0.0f && p.temperature <= kernel::largest<float>;
    p.temperature = sampling_parameters{}.temperature;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LawStage<temperature>);

}  // namespace hunch::sampler

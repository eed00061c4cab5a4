// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include <hunch/kernel/restrict.hpp>
#include <hunch/sampler/pipeline.hpp>

namespace hunch::sampler {

/// p(v) proportional to exp(logit(v) / T). T = 0 is the point mass at the argmax, and so is a T so
/// small that 1 / T is not finite.
struct temperature {
  template <Team T, class Real>
  HUNCH_HOST_DEVICE void operator()(T& team, law<Real>& l, const sampling_parameters& p) const {
    const Real scale = l.scale / static_cast<Real>(p.temperature);
    // Not for -0 either, whose inverse is -inf.
    if (p.temperature > 0.0f &&
        kernel::order<Real>::of(scale) < kernel::order<Real>::plus_infinity) {
      l.scale = scale;
    } else {
      kernel::keep_argmax(team, l);
    }
  }

  /// Resets the field to its default where this stage takes care of it.
  static constexpr status take(sampling_parameters& p) {
    const bool valid = p.temperature >= 0.0f && p.temperature <= std::numeric_limits<float>::max();
    p.temperature = sampling_parameters{}.temperature;
    return valid ? status::ok : status::invalid_parameter;
  }
};

static_assert(LawStage<temperature>);

}  // namespace hunch::sampler

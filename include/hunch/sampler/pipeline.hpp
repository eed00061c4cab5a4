// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include <hunch/kernel/restrict.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch {

/// A stage of `sampler::pipeline` that scales or restricts a law.
///
/// 1. `stage(team, law, parameters)` changes the law's scalars; collective.
/// 2. `Stage::take(parameters)` is whether the stage's own fields are in range, and resets them to
///    their defaults: what is left away from its default after all stages is unsupported.
///
/// Not required: to normalise; the pipeline does that once, after the last stage.
template <class S>
concept SamplerStage = std::copyable<S> &&
    requires(const S& s, team::serial& t, law<float>& l, sampling_parameters& p,
             const sampling_parameters& values) {
  s(t, l, values);
  { S::take(p) } -> std::same_as<status>;
};

namespace sampler {

/// Stages applied in the order given, each to what the one before it left. Which stages exist is
/// part of the type; their values are part of the request. Lossless: it defines the law that is
/// kept.
///
/// Reads the row once for the maximum, as each stage needs, and once for the norm.
template <class... Stages>
struct pipeline : private Stages... {
  static_assert((SamplerStage<Stages> && ...),
                "hunch: every argument of sampler::pipeline must be a SamplerStage, such as "
                "sampler::temperature, sampler::top_k or sampler::top_p");

  static constexpr bool always_greedy = false;

  constexpr pipeline() = default;
  constexpr explicit pipeline(Stages... stages) requires(sizeof...(Stages) > 0)
      : Stages(stages)... {}

  template <Team T, class Real>
  HUNCH_HOST_DEVICE law<Real> operator()(T& team, row_view<Real> row,
                                         const sampling_parameters& parameters,
                                         const row_history&) const {
    law<Real> l = kernel::whole_row(team, row_view<const Real>{row.data, row.size});
    if (l.status == status::ok) {
      (static_cast<const Stages&>(*this)(team, l, parameters), ...);
      kernel::normalise(team, l);
    }
    return l;
  }

  constexpr status check(sampling_parameters p) const {
    status result = status::ok;
    const auto note = [&result](status s) { result = s == status::ok ? result : s; };
    (note(Stages::take(p)), ...);
    const sampling_parameters untouched{};
    if (p.temperature != untouched.temperature || p.top_k != untouched.top_k ||
        p.top_p != untouched.top_p) {
      return status::invalid_parameter;
    }
    return result;
  }
};

}  // namespace sampler
}  // namespace hunch

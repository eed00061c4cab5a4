// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/distribution/restrict.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch::sampler {

/// The most probable token, the lowest id on ties: a point mass. Lossless for greedy decoding.
/// Accepts requests whose temperature is 0 or was left at its default.
struct greedy {
  static constexpr bool always_greedy = true;
  static constexpr bool needs_counts = false;
  static constexpr bool needs_allowed = false;

  template <Team T, class Logit>
  HUNCH_HOST_DEVICE law<Logit> operator()(T& team, row_view<Logit> row, const sampling_parameters&,
                                          const row_history&) const {
    law<Logit> l = kernel::whole_row(team, row_view<const Logit>{row.data, row.size});
    if (l.status == status::ok) { kernel::keep_argmax(team, l); }
    return l;
  }

  HUNCH_HOST_DEVICE constexpr status check(sampling_parameters p) const {
    p.temperature = p.temperature == 0.0f ? 1.0f : p.temperature;
    return p == sampling_parameters{} ? status::ok : status::invalid_parameter;
  }
};

static_assert(Sampler<greedy>);

}  // namespace hunch::sampler

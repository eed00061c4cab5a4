// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// What tokens are ranked by: the law of a row of draft logits at temperature 1, without cuts,
/// after the edits of the sampler (penalties, grammars). Edits the row. Collective.
template <class Real, class S, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> ranking_law(
    T& team, const S& sampler, const row_view<Real>& logits, const sampling_parameters& parameters,
    const row_history& history) {
  const law<Real> q = sampler(team, logits, uncut(parameters), history);
  if (q.status != status::ok || whole_law<Real>::fits(q)) { return q; }
  const row_view<const Real> row{logits.data, logits.size};
  return unrestricted(team, row, scale_at_one<real_of<Real>>, status::invalid_logits);
}

/// The logarithm of a probability to base 2; at most 0, so that no child is worth more than its
/// parent.
template <class Real>
HUNCH_HOST_DEVICE float log2_probability(Real probability) {
  const auto p = static_cast<double>(probability);
  if (!(p > 0.0)) { return -infinity<float>; }
  return p < 1.0 ? static_cast<float>(log_of(p) * 1.4426950408889634074) : 0.0f;
}

}  // namespace hunch::kernel

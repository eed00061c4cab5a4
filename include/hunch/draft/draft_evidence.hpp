// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/distribution/restrict.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// The law by which the sureness of a draft is judged: the one that was drawn from; but a point
/// mass is always sure, and in its place there is the law of the same logits at temperature 1,
/// which says more. Collective; reads the row of a point mass once.
template <class Real, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> law_at_temperature_one(T& team,
                                                                          const law<Real>& l) {
  if (l.status != status::ok || l.threshold < l.maximum) { return l; }
  return unrestricted(team, l.logits, scale_at_one<real_of<Real>>, status::invalid_logits);
}

/// A token that was drawn, and where what a length policy wants to know about it goes.
template <class Real>
struct evidence_task {
  const law<Real>* drawn_from = nullptr;
  const std::int32_t* drawn_at = nullptr;  ///< its position in the law; below 0: none was drawn
  /// Out: under `law_at_temperature_one` of the law that it was drawn from; 0 if none was drawn.
  double* probability = nullptr;
  double* entropy = nullptr;  ///< out: of that law in nats; may be null
};

/// What length policies are given of drawn tokens, see `length_evidence`. One team per token.
/// Reads the law's row once if it is a point mass, and once for the entropy.
template <class Real>
struct report_evidence {
  const evidence_task<Real>* tasks;  ///< [tokens]
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const evidence_task<Real> task = tasks[index];
    const std::int32_t at = *task.drawn_at;
    const law<Real> l = law_at_temperature_one(team, *task.drawn_from);
    const bool drawn = at >= 0 && l.status == status::ok;
    if (team.rank() == 0) { *task.probability = drawn ? static_cast<double>(l.prob(at)) : 0.0; }
    if (task.entropy == nullptr) { return; }
    const double nats = entropy(team, l);
    if (team.rank() == 0) { *task.entropy = nats; }
  }
};

}  // namespace hunch::kernel

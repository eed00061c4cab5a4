// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/law.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::kernel {

/// One row of target logits and where its law goes.
template <class Real>
struct target_row {
  row_view<Real> logits;
  sampling_parameters parameters;
  row_history history;
  law<Real>* result = nullptr;  ///< out
};

/// Makes the law of target row `index`. One team per row.
template <class Real, class S>
struct make_laws {
  const target_row<Real>* rows;
  S sampler;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const target_row<Real> row = rows[index];
    const law<Real> p = sampler(team, row.logits, row.parameters, row.history);
    if (team.rank() == 0) { *row.result = p; }
  }
};

/// Verifies the draft of sequence `index`. One team per sequence.
template <class Real, class V, class Random>
struct verify_sequences {
  const verify_view<Real>* views;
  verdict* verdicts;  ///< in: `path`; out: everything else
  V verifier;
  Random random;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    verdict out;
    out.path = verdicts[index].path;
    verifier(team, views[index], random, out);
    team.sync();  // every rank has read `path`, which the next line writes again
    if (team.rank() == 0) { verdicts[index] = out; }
  }
};

}  // namespace hunch::kernel

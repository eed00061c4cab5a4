// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/law.hpp>
#include <hunch/random.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// One row of draft logits and where its law and the child drawn from it go.
template <class Real>
struct draft_row {
  row_view<Real> logits;  ///< over `list`
  shortlist list;
  sampling_parameters parameters;
  row_history history;
  address where;
  law<Real>* drawn_from = nullptr;   ///< out
  std::int32_t* drawn_at = nullptr;  ///< out: position in `list`
  token* drawn = nullptr;            ///< out: no_token if the row has an error
};

/// Makes the law of draft row `index` and draws one child from it. One team per row.
template <class Real, class S, class Random>
struct draw_children {
  const draft_row<Real>* rows;
  S sampler;
  Random random;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const draft_row<Real> row = rows[index];
    const law<Real> q = sampler(team, row.logits, row.parameters, row.history);
    std::int64_t at = -1;
    if (q.status == status::ok) {
      at = random.categorical(team, row.where, q.logits.size,
                              [=](std::int64_t i) { return q.weight(i); });
    }
    if (team.rank() == 0) {
      *row.drawn_from = q;
      *row.drawn_at = static_cast<std::int32_t>(at);
      *row.drawn = at < 0 ? no_token : row.list.token_at(static_cast<std::int32_t>(at));
    }
  }
};

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// A row of logits that several nodes are drafted from: each needs one that its own sampler may
/// edit.
template <class Real>
struct row_copy {
  const Real* from = nullptr;
  row_view<Real> to;
};

/// Copies row `index`. One team per row; no row is read and written in the same launch.
template <class Real>
struct copy_rows {
  const row_copy<Real>* rows;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const row_copy<Real> row = rows[index];
    team.for_each(row.to.size, [=](std::int64_t i) { row.to.data[i] = row.from[i]; });
  }
};

}  // namespace hunch::kernel

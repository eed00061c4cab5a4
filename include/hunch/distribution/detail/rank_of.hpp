// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// How many elements of a law come before element x: the more probable ones, and of the equally
/// probable ones those with a lower id. Collective; reads the row once.
template <Team T, Law P>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t rank_of(T& team, const P& p, std::int64_t x) {
  const auto p_x = team::on_holder(team, x, [&] { return p.weight(x); });
  return team::reduce_row(
      team, p.size(), std::int32_t(0),
      [=](std::int64_t i) {
        const auto w = p.weight(i);
        return w > p_x || (w == p_x && i < x) ? 1 : 0;
      },
      [](std::int32_t a, std::int32_t b) { return a + b; });
}

}  // namespace hunch::kernel

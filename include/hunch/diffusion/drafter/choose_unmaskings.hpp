// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/verifier/unmask_plan.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// What slot `index` may have unmasked next by the model of its view's one canvas, in the order's
/// order: drafts. One team per slot.
template <class View>
struct choose_unmaskings {
  const View* views;                 ///< [slots] `drafts_view`s
  diffusion::planned_draft* drafts;  ///< [slots, capacity] out: position -1 after the last
  std::int32_t capacity;             ///< of a slot
  bool entropies;                    ///< that of the first draft is wanted
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const unmask_plan plan{.drafts = drafts + static_cast<std::int64_t>(index) * capacity,
                           .capacity = capacity,
                           .entropies = entropies ? 1 : 0};
    plan.clear(team);
    plan.fill(team, views[index].digests, views[index].canvases[0], -1);
  }
};

}  // namespace hunch::kernel

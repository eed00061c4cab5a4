// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/verifier/unmask_plan.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// Makes the digest of wanted position `index` of a pass before any verifier asks: positions in
/// parallel, where there are teams to spare. One team per position. The views share the arrays of
/// digests, in which each was `unmade` when the logits were new: a row is edited once.
template <class View>
struct digest_positions {
  const View* views;          ///< [slots] `drafts_view`s of one pass, at least one
  const std::int32_t* count;  ///< positions there are; behind them is padding
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    if (index >= *count) { return; }
    const auto& digests = views[0].digests;
    views[digests.wanted[index].slot].digests(team, index);
  }
};

/// Verifies the drafts of slot `index` and plans its next ones, from the logits of the canvas
/// that all accepted drafts are on: what is left of its wanted positions, in the order's order.
/// One team per slot; a slot without a request has no positions.
template <class View, class V>
struct verify_unmaskings {
  const View* views;                    ///< [slots] `drafts_view`s
  diffusion::unmask_verdict* verdicts;  ///< [slots] out
  diffusion::planned_draft* plans;      ///< [slots, capacity] out: position -1 after the last
  std::int32_t capacity;                ///< drafts of a slot
  bool entropies;                       ///< of the planned drafts are wanted
  V verifier;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const View& view = views[index];
    diffusion::unmask_verdict out;
    verifier(team, view, out);
    if (team.rank() == 0) { verdicts[index] = out; }
    const unmask_plan plan{.drafts = plans + static_cast<std::int64_t>(index) * capacity,
                           .capacity = capacity,
                           .entropies = entropies ? capacity : 0};
    plan.clear(team);
    if (out.next.status == status::ok) {
      plan.fill(team, view.digests, view.canvases[out.canvas], out.next.what.position);
    }
  }
};

}  // namespace hunch::kernel

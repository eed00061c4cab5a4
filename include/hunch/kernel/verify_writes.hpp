// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/diffusion/write.hpp>
#include <hunch/kernel/entropy.hpp>
#include <hunch/team/team.hpp>
#include <hunch/types.hpp>

namespace hunch::kernel {

/// Makes the digest of wanted position `index` of a pass before any verifier asks: positions in
/// parallel, where there are teams to spare. One team per position.
template <class View>
struct digest_positions {
  const View* views;  ///< [requests]
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const auto& digests = views[0].digests;
    views[digests.wanted[index].request].digests(team, index);
  }
};

/// Verifies the drafts of request `index` and plans its next ones, from the logits of the canvas
/// that all accepted drafts are on: what is left of its wanted positions, in the order's order.
/// One team per request.
template <class View, class V>
struct verify_writes {
  const View* views;
  diffusion::write_verdict* verdicts;  ///< out
  diffusion::planned_draft* plans;     ///< [requests, capacity] out: position -1 behind the last
  std::int32_t capacity;               ///< drafts of a request
  bool entropies;                      ///< of the planned drafts are wanted
  V verifier;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const View& view = views[index];
    diffusion::write_verdict out;
    verifier(team, view, out);
    if (team.rank() == 0) { verdicts[index] = out; }
    diffusion::planned_draft* const plan = plans + static_cast<std::int64_t>(index) * capacity;
    team.for_each(capacity, [=](std::int64_t i) { plan[i] = {}; });
    if (out.next.status == status::ok) {
      plan_drafts(team, view, view.canvases[out.accepted], out.next.what.position, plan);
    }
  }

 private:
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void plan_drafts(T& team, const View& view,
                                                            diffusion::canvas_positions of,
                                                            std::int32_t written,
                                                            diffusion::planned_draft* plan) const {
    if (capacity == 0) { return; }
    const auto& digests = view.digests;
    for (std::int32_t i = of.first; i < of.first + of.count; ++i) { digests(team, i); }
    // A position whose row has an error is not drafted; where it matters, it is found again.
    const auto is_drafted = [&digests, written](std::int32_t i) {
      return digests.wanted[i].position != written && digests.made[i].sure.status == status::ok;
    };
    team.for_each(of.count, [&](std::int64_t at) {
      const std::int32_t i = of.first + static_cast<std::int32_t>(at);
      if (!is_drafted(i)) { return; }
      const diffusion::candidate mine = digests.candidate_at(i);
      std::int32_t ahead = 0;
      for (std::int32_t j = of.first; j < of.first + of.count; ++j) {
        const bool is_ahead =
            j != i && is_drafted(j) && digests.order.before(digests.candidate_at(j), mine);
        ahead += is_ahead ? 1 : 0;
      }
      if (ahead < capacity) {
        plan[ahead] = {mine.what, i, digests.made[i].probability, 0.0, digests.made[i].drawn};
      }
    });
    if (!entropies) { return; }
    for (std::int32_t i = 0; i < capacity && plan[i].digest >= 0; ++i) {
      const double nats = entropy(team, digests.made[plan[i].digest].sure);
      if (team.rank() == 0) { plan[i].entropy = nats; }
    }
  }
};

}  // namespace hunch::kernel

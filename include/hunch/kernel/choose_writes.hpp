// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/diffusion/write.hpp>
#include <hunch/kernel/entropy.hpp>
#include <hunch/team/team.hpp>
#include <hunch/types.hpp>

namespace hunch::kernel {

/// What request `index` has written next by the model of its view's one canvas, as a draft: none
/// where the canvas wants nothing, or has a row with an error. One team per request.
template <class View>
struct choose_writes {
  const View* views;
  diffusion::planned_draft* drafts;  ///< [requests] out: position -1 for none
  bool entropies;                    ///< are wanted
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const View& view = views[index];
    const diffusion::decision next = view.choice(team, 0);
    diffusion::planned_draft out;
    if (next.status == status::ok && next.what.position >= 0) {
      const std::int32_t i = view.find(0, next.what.position);
      const auto digest = view.digests(team, i);
      out = {next.what, i, digest.probability, 0.0, digest.drawn};
      if (entropies) { out.entropy = entropy(team, digest.sure); }
    }
    if (team.rank() == 0) { drafts[index] = out; }
  }
};

}  // namespace hunch::kernel

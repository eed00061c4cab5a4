// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// What a canvas would have unmasked of its wanted positions, in the order's order: drafts.
struct unmask_plan {
  diffusion::planned_draft* drafts;  ///< [capacity] position -1 after the last
  std::int32_t capacity;
  std::int32_t entropies;  ///< of so many of the first are wanted

  /// No drafts. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void clear(T& team) const {
    const unmask_plan self = *this;
    team.for_each(capacity, [self](std::int64_t i) { self.drafts[i] = {}; });
  }

  /// After `clear`: of positions `of`, all but `unmasked`. A position whose row has an error is not
  /// drafted; where it matters, it is found again. Collective.
  template <Team T, class Digests>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void fill(T& team, const Digests& digests,
                                                     diffusion::canvas_positions of,
                                                     std::int32_t unmasked) const {
    if (capacity == 0) { return; }
    for (std::int32_t i = of.first; i < of.first + of.count; ++i) { digests(team, i); }
    const auto is_drafted = [&digests, unmasked](std::int32_t i) {
      return digests.wanted[i].position != unmasked && digests.made[i].sure.status == status::ok;
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
        drafts[ahead] = {.what = mine.what,
                         .block = mine.block,
                         .digest = i,
                         .probability = digests.made[i].probability,
                         .entropy = 0.0,
                         .drawn = digests.made[i].drawn};
      }
    });
    for (std::int32_t i = 0; i < entropies && drafts[i].digest >= 0; ++i) {
      const double nats = entropy(team, digests.made[drafts[i].digest].sure);
      if (team.rank() == 0) { drafts[i].entropy = nats; }
    }
  }
};

}  // namespace hunch::kernel

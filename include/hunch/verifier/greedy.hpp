// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/verifier/follow.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Greedy match: descend while a child is the target's most probable token, then emit that token.
/// The emitted text is the greedy text of the target, whatever the draft. Lossless; works on every
/// draft; needs laws that are point masses, so a sampler that is always greedy. No randomness, and
/// of each law only one scalar is read. (Stern, Shazeer, Uszkoreit 2018, arXiv:1811.03115)
struct greedy {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = true;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view, const Random&,
                                                           verdict& out) const {
    kernel::follow(team, view, out, [](const auto& p, std::int32_t) { return p.last_kept; });
  }
};

static_assert(Verifier<greedy>);

}  // namespace hunch::verifier

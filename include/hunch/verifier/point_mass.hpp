// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/verifier/follow.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Draw y from the target's law at the node; descend if a child equals it, else emit it. Each
/// emitted token is a draw from the target, so this is lossless for every tree that was fixed
/// before the draws: n-grams, top-k trees of EAGLE-2/3 and Medusa, streams. The tree may even
/// depend on the target's laws. No draft law is needed, and none is used: where drafts were drawn
/// from a known q, `verifier::rejection` accepts more.
///
/// It is rejection sampling against a draft law that is a point mass. Reads the target's rows along
/// the accepted path and no others.
struct point_mass {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    kernel::follow(team, view, out, [&](const auto& p, std::int32_t c) {
      return kernel::ahead_or(team, view, *this, random, c,
                              [&] { return drawn(team, view, random, p, c); });
    });
  }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE std::uint64_t ahead(T& team, const View& view, const Random& random,
                                        std::int32_t c) const {
    const auto p = view.target(team, c);
    return p.status != status::ok ? 0 : kernel::ahead_bits(drawn(team, view, random, p, c));
  }

 private:
  template <Team T, class View, class Random, class P>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE static token drawn(T& team, const View& view,
                                                              const Random& random, const P& p,
                                                              std::int32_t c) {
    return static_cast<token>(
        random.categorical(team, view.at(c, purpose::bonus), p.size(), weights_of{p}));
  }
};

static_assert(Verifier<point_mass>);

}  // namespace hunch::verifier

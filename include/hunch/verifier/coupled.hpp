// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/verifier/follow.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Like `point_mass`, but the draw from the target is its noisy argmax, whose noise is a function
/// of (seed, position, token id) alone. So the emitted text is bit for bit that of plain decoding
/// with this verifier and the same seed, whatever the drafter, the length of its drafts, the batch
/// or the order of arrival. Lossless.
///
/// Drafts that are drawn with the same noise tend to agree: the noisy argmaxes of laws p and q are
/// equal with probability at least (1 - TV) / (1 + TV), where rejection sampling accepts with
/// 1 - TV. The decoder has its drafter draw that way. (Gumbel-max coupling: Maddison, Tarlow, Minka
/// 2014, arXiv:1411.0030; Daliri, Musco, Suresh 2024, arXiv:2408.07978)
///
/// Needs a random source with `noisy_argmax`. Visits only the tokens that can win.
struct coupled {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = true;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    static_assert(NoiseSource<Random>,
                  "hunch: verifier::coupled needs a random source with noisy_argmax, such as "
                  "hunch::random_source<hunch::philox>");
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
    const std::uint32_t position = view.length + static_cast<std::uint32_t>(view.tree.depth(c));
    return random.noisy_argmax(team, noise_address(view.seed, position), p);
  }
};

static_assert(Verifier<coupled>);

}  // namespace hunch::verifier

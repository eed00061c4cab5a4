// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/distribution/detail/rank_of.hpp>
#include <hunch/verifier/longest_path.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// A token is accepted if it is among the k most probable of the target's law, of equal ones the
/// lower ids; the longest accepted path wins, of equally long ones the most probable. **Not
/// lossless**: the probabilities of these k tokens do not matter. (A variant in SSD: Gao et al.
/// 2025, arXiv:2510.04147)
struct top_k {
  std::int32_t k = 1;

  static constexpr bool lossless = false;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    kernel::longest_path(team, view, random, out, [&](const auto& p) {
      return [&team, p, k = k](token x, double) { return kernel::rank_of(team, p, x) < k; };
    });
  }
};

static_assert(Verifier<top_k>);

}  // namespace hunch::verifier

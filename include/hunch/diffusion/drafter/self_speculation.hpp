// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::diffusion {

/// How often another mask is next than the one that seems to be: in a small model, four times in
/// ten.
inline constexpr double default_spread = 1.0;

/// How much a round drafts: at most N canvases with drafts for each request, as many as the length
/// policy wants. Drafts cost nothing to make, for they come from the logits of the round before;
/// what they cost is canvases, one more in the pass for each. So `length::cost` has a `draft` of 0
/// and the row-cost curve of canvases.
template <std::int32_t N, LengthPolicy L = length::fixed>
struct self_speculation {
  static_assert(N >= 0 && N <= 63,
                "hunch: diffusion::self_speculation<N> has N drafts in a round, 0 <= N <= 63");

  static constexpr std::int32_t max_drafts = N;
  using length_policy = L;

  L length{};
  double spread = default_spread;  ///< over orders of unmasking, see `draft_sets`; 0: a chain
};

/// No drafts: one token a pass, the reference.
using stepwise = self_speculation<0>;

/// What a decoder asks of the above: `D::max_drafts`, `d.length`, a `LengthPolicy`, and `d.spread`
/// finite and not negative. If there is a `d.model`, drafts come from it; see `model_drafts`.
template <class D>
concept DraftPolicy = LengthPolicy<typename D::length_policy> && requires(const D& d) {
  {std::integral_constant<std::int32_t, D::max_drafts>{}};
  { d.length } -> std::convertible_to<const typename D::length_policy&>;
  { d.spread } -> std::convertible_to<double>;
};

static_assert(DraftPolicy<stepwise>);

}  // namespace hunch::diffusion

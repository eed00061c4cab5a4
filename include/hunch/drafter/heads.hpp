// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <hunch/drafter/detail/ahead.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::drafter {

/// Heads that draft several tokens ahead from one hidden state of the target: see `ahead`. (Medusa:
/// Cai et al. 2024, arXiv:2401.10774)
///
/// Lossless with every lossless verifier that takes the tree's children. Waits for the executor
/// before the heads' pass, for the number of their inputs, and once per level.
///
/// \tparam Heads models `DraftHeads`; a reference where the caller keeps them.
/// \tparam Tree a `TreeShape` that is no deeper than there are heads.
/// \tparam Policy decides how deep a draft is.
template <class Heads, class Tree, LengthPolicy Policy = length::fixed>
class heads : public ahead<1, Heads, Tree, Policy> {
 public:
  static constexpr bool needs_hidden = true;

  /// The decoder's constructor throws std::invalid_argument for fewer heads than the tree is deep,
  /// and as for `autoregressive`; its first step, if the target's states have another size than the
  /// heads read.
  explicit heads(Heads&& model, Tree = {}, Policy policy = {})
      : heads::ahead("hunch::drafter::heads", std::forward<Heads>(model), policy) {}
};

template <class Heads, class Tree, class Policy = length::fixed>
heads(Heads&&, Tree, Policy = {}) -> heads<Heads, Tree, Policy>;

}  // namespace hunch::drafter

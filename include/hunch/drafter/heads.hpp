// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <hunch/drafter/detail/ahead.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// The target's hidden state that it made the law of the root from.
struct last_hidden_state {
  static constexpr const char* name = "hunch::drafter::heads";
  static constexpr std::int32_t each = 1;
  static constexpr std::int32_t streams = 0;

  template <class E>
  static auto of(E& evaluation, std::int32_t row, std::int32_t) {
    return evaluation.hidden(row);
  }
};

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
class heads : public ahead<last_hidden_state, Heads, Tree, Policy> {
  static_assert(TreeShape<Tree>,
                "hunch: the second argument of drafter::heads must model hunch::TreeShape, such as "
                "tree::chain<N>, tree::sampled<W...> or tree::dynamic<K, D, N>");
  static_assert(are_draft_heads<Heads>,
                "hunch: the model of drafter::heads must model hunch::DraftHeads: vocab_size(), "
                "hidden_size(), heads(), head_order(), forward(head_inputs) and "
                "head(hidden, head_rows)");

 public:
  static constexpr bool needs_hidden = true;

  /// The decoder's constructor throws std::invalid_argument for fewer heads than the tree is deep,
  /// and as for `autoregressive`; its first step, if the target's states have another size than the
  /// heads read.
  explicit heads(Heads&& model, Tree = {}, Policy policy = {})
      : heads::ahead(std::forward<Heads>(model), policy) {}
};

template <class Heads, class Tree, class Policy = length::fixed>
heads(Heads&&, Tree, Policy = {}) -> heads<Heads, Tree, Policy>;

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <hunch/drafter/detail/ahead.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::drafter {

/// The target drafts for itself: beside every node of its pass run speculative streams, and those
/// of the last accepted node are the next draft: see `ahead`. Verification and draft are one pass.
/// (Speculative Streaming: Bhendawade et al. 2024, arXiv:2402.11131)
///
/// Stream j drafts depth j + 1; the heads are applied to the streams of one node of each sequence,
/// over the selector's shortlist. A step whose pass had no streams, because nothing was to be
/// drafted, is followed by one that drafts nothing.
///
/// Lossless with every lossless verifier, against the model whose logits the pass returns: the
/// target as it was, if its streams leave its rows alone. Waits for the executor as `heads` does.
///
/// \tparam Heads models `DraftHeads`, over states of streams; a reference where the caller keeps
///         them.
/// \tparam Tree a `TreeShape`: the streams that are requested are as many as it is deep.
/// \tparam Policy decides how deep a draft is.
template <class Heads, class Tree, LengthPolicy Policy = length::fixed>
class streaming : public ahead<Tree::max_depth, Heads, Tree, Policy> {
 public:
  static constexpr bool needs_hidden = false;
  static constexpr std::int32_t streams = Tree::max_depth;

  /// The decoder's constructor throws as for `heads`.
  explicit streaming(Heads&& model, Tree = {}, Policy policy = {})
      : streaming::ahead("hunch::drafter::streaming", std::forward<Heads>(model), policy) {}
};

template <class Heads, class Tree, class Policy = length::fixed>
streaming(Heads&&, Tree, Policy = {}) -> streaming<Heads, Tree, Policy>;

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// The shapes of trees that the flags name.
using chain_shape = hunch::tree::chain<max_draft_length>;
using dynamic_shape = hunch::tree::dynamic<4, 4, 10>;
/// As EAGLE-2 was published.
using dynamic_60_shape = hunch::tree::dynamic<10, 6, 60>;
using sampled_shape = hunch::tree::sampled<2, 1, 1, 1>;
inline constexpr hunch::tree::choices shipped_choices{{0},    {1},    {0, 0},   {2},
                                                      {0, 1}, {1, 0}, {0, 0, 0}};
/// With a name of its own: nvcc 13 cannot spell choices in that of a kernel.
struct fixed_shape : hunch::tree::fixed<shipped_choices> {};
/// Of heads that look as many tokens ahead as those that ship: a tree is not deeper than there are.
using heads_chain_shape = hunch::tree::chain<4>;

/// Calls use(tree) with the shape that is asked for. \tparam Chain the longest chain.
template <class Chain, class Use>
void with_tree(tree_kind asked, Use&& use) {
  switch (asked) {
    case tree_kind::chain:
      return use(Chain{});
    case tree_kind::sampled:
      return use(sampled_shape{});
    case tree_kind::dynamic:
      return use(dynamic_shape{});
    case tree_kind::dynamic_60:
      return use(dynamic_60_shape{});
    case tree_kind::fixed:
      return use(fixed_shape{});
  }
}

/// The same of shapes that are pruned: those of ranked tokens that heads have the depth for.
template <class Use>
void with_prunable_tree(tree_kind asked, Use&& use) {
  if (asked == tree_kind::fixed) { return use(fixed_shape{}); }
  use(dynamic_shape{});
}

}  // namespace generate

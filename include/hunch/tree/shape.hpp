// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/draft/draft_tree.hpp>

namespace hunch {

/// The shape that a drafter gives its trees. Every node has a place in the shape; 0 is the root's.
///
/// 1. `S::max_nodes` is the capacity of a tree with its root, `S::max_depth` its levels below the
///    root, `S::max_inner` how many nodes are drafted from, `S::max_width` how many of them at one
///    depth, `S::max_children` how many children one of them is asked for.
/// 2. `S::children` is how children come about, see `child_law`; `S::is_chain`, whether trees have
///    width one.
/// 3. `S::asked(place)` is how many children the node at a place is asked for; 0 for a leaf. They
///    are the first draws from its law or, of ranked children, the most probable tokens.
/// 4. `S::child(place, i)` is the place of its i-th child, or -1 if that one is left out, as only
///    ranked children may be.
///
/// Not required: that every node has as many children. Laws may have less support, and requests
/// less room.
template <class S>
concept TreeShape = requires(std::int32_t place) {
  {std::integral_constant<std::int32_t, S::max_nodes>{}};
  {std::integral_constant<std::int32_t, S::max_inner>{}};
  {std::integral_constant<std::int32_t, S::max_depth>{}};
  {std::integral_constant<std::int32_t, S::max_width>{}};
  {std::integral_constant<std::int32_t, S::max_children>{}};
  {std::integral_constant<child_law, S::children>{}};
  {std::bool_constant<S::is_chain>{}};
  { S::asked(place) } -> std::same_as<std::int32_t>;
  { S::child(place, place) } -> std::same_as<std::int32_t>;
};

/// A shape that depends on what the draft laws say: of the children found at a depth the
/// `S::max_width` most probable ones are drafted from, and of all found at any depth the
/// `S::total` - 1 most probable ones become the tree.
template <class S>
concept DynamicShape = TreeShape<S> && requires {
  {std::integral_constant<std::int32_t, S::total>{}};
};

namespace detail {

/// Leaves below the node at a place, itself if it is one.
template <class S>
constexpr std::int32_t leaves_below(std::int32_t place) {
  std::int32_t leaves = 0;
  for (std::int32_t i = 0; i < S::asked(place); ++i) {
    const std::int32_t child = S::child(place, i);
    if (child >= 0) { leaves += leaves_below<S>(child); }
  }
  return std::max(leaves, 1);
}

/// Of a tree, whose nodes have at most so many children, and of the rows that it is drafted from,
/// where at every depth one node may be the parent of all that come next.
template <DynamicShape S>
constexpr std::int32_t most_leaves() {
  const std::int32_t candidates = S::max_children * (1 + S::max_width * (S::max_depth - 1));
  const std::int32_t drafted = std::min(S::total - 1, candidates);
  const std::int32_t inner = (drafted - 1) / S::max_children;
  const std::int32_t of_rows = (S::max_width - 1) * (S::max_depth - 1) + 1;
  return std::max({drafted - inner, of_rows, 1});
}

}  // namespace detail

/// How many leaves the trees of a shape, and the rows that a draft model reads for them, have at
/// most: the sequence ids that a draft takes where each branch has one, see `branch_plan`.
template <TreeShape S>
inline constexpr std::int32_t max_branches = [] {
  if constexpr (DynamicShape<S>) {
    return detail::most_leaves<S>();
  } else {
    return detail::leaves_below<S>(0);
  }
}();

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/head/row_summary.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::tree {

/// The tree that the draft laws suggest (EAGLE-2: Li et al. 2024, arXiv:2406.16858). The value of
/// a node is the probability of its path by the draft model. At each of `Depth` depths the `TopK`
/// most valuable nodes of the newest level are given their `TopK` most probable children; at last
/// the `Total` - 1 most valuable nodes of all levels are kept, with the root `Total`. A node is
/// worth at most as much as its parent, and ties go to the parent, so that they are a tree.
///
/// Laws are taken at temperature 1, without cuts: what is ranked is never drawn. Ranked children:
/// exact by any rule that needs no draft law, at any temperature.
template <std::int32_t TopK, std::int32_t Depth, std::int32_t Total>
struct dynamic {
  static_assert(TopK >= 1 && TopK <= max_ranked_children, "hunch: tree::dynamic: 1 <= top-k <= 32");
  static_assert(Depth >= 1 && Total >= 2, "hunch: tree::dynamic: depth >= 1 and total >= 2");

  static constexpr std::int32_t total = Total;
  static constexpr std::int32_t max_inner = 1 + TopK * (Depth - 1);
  static constexpr std::int32_t max_nodes = std::max(Total, max_inner);
  static constexpr std::int32_t max_depth = Depth;
  static constexpr std::int32_t max_width = Depth == 1 ? 1 : TopK;
  static constexpr std::int32_t max_children = TopK;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = false;

  static_assert(max_inner * TopK <= team::list_capacity && Total <= team::list_capacity,
                "hunch: tree::dynamic: more than 2048 candidates");

  /// The place of a node is its depth.
  static constexpr std::int32_t asked(std::int32_t place) { return place < Depth ? TopK : 0; }
  static constexpr std::int32_t child(std::int32_t place, std::int32_t) { return place + 1; }
};

static_assert(DynamicShape<dynamic<2, 2, 3>>);

}  // namespace hunch::tree

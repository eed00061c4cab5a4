// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/distribution/detail/token_set.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::tree {

/// A tree whose nodes at depth i have `Widths[i]` children, drawn from the draft law of the node
/// one after the other, each without the ones before: for exact recursive rejection, of which every
/// child is a further chance. (Recursive speculative decoding: Jeon et al. 2024, arXiv:2402.14160;
/// Sequoia: Chen et al. 2024, arXiv:2402.12374)
template <std::int32_t... Widths>
struct sampled {
  static_assert(sizeof...(Widths) > 0 && ((Widths >= 1 && Widths <= kernel::max_siblings) && ...),
                "hunch: tree::sampled<W...> has at least one depth, and 1 to 64 children per node "
                "at each");

 private:
  static constexpr std::int32_t depths = static_cast<std::int32_t>(sizeof...(Widths));
  static constexpr std::int32_t widths[depths] = {Widths...};
  /// Nodes at a depth and above it.
  static constexpr std::int64_t nodes_to(std::int32_t depth) {
    std::int64_t level = 1;
    std::int64_t all = 1;
    for (std::int32_t i = 0; i < depth; ++i) {
      level *= widths[i];
      all += level;
    }
    return all;
  }
  static_assert(nodes_to(depths) <= 4096, "hunch: such a tree::sampled has more than 4096 nodes");

 public:
  static constexpr auto max_nodes = static_cast<std::int32_t>(nodes_to(depths));
  static constexpr auto max_inner = static_cast<std::int32_t>(nodes_to(depths - 1));
  static constexpr std::int32_t max_depth = depths;
  static constexpr auto max_width =
      static_cast<std::int32_t>(depths == 1 ? 1 : nodes_to(depths - 1) - nodes_to(depths - 2));
  static constexpr std::int32_t max_children = std::max({Widths...});
  static constexpr bool is_chain = max_children == 1;
  static constexpr child_law children =
      is_chain ? child_law::independent : child_law::without_replacement;

  /// The place of a node is its depth.
  static constexpr std::int32_t asked(std::int32_t place) {
    return place < depths ? widths[place] : 0;
  }
  static constexpr std::int32_t child(std::int32_t place, std::int32_t) { return place + 1; }
};

static_assert(TreeShape<sampled<2, 1>>);

}  // namespace hunch::tree

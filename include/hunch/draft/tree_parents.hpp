// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// The trees of a batch as the parents of their nodes, like those of `drafted_tokens`: node 0 is
/// the root, and a parent comes before its children. All arrays are contiguous.
struct tree_parents {
  std::int32_t batch = 0;
  std::int32_t nodes = 0;                 ///< that a tree has room for, the root included
  const std::int32_t* counts = nullptr;   ///< [batch] nodes of each tree; nullptr: `nodes`
  const std::int32_t* parents = nullptr;  ///< [batch, nodes]; that of a root is not read

  HUNCH_HOST_DEVICE std::int32_t count(std::int32_t k) const {
    return counts == nullptr ? nodes : counts[k];
  }
  /// Where what belongs to node 0 of tree k begins.
  HUNCH_HOST_DEVICE std::int64_t first(std::int32_t k) const {
    return static_cast<std::int64_t>(k) * nodes;
  }
  HUNCH_HOST_DEVICE const std::int32_t* of(std::int32_t k) const { return parents + first(k); }
};

namespace kernel {

/// The node that `node` hangs on, or -1: for the root, and for a node whose parent does not come
/// before it. So a walk up ends, whatever the parents are.
template <class Index>
HUNCH_HOST_DEVICE HUNCH_INLINE Index node_above(const Index* parent, Index node) {
  const Index above = node > 0 ? parent[node] : Index(-1);
  return above < node ? above : Index(-1);
}

/// Whether one of `count` nodes, but for the root, hangs on nothing. Collective.
template <class Index, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE bool has_strays(T& team, const Index* parent,
                                                         std::int32_t count) {
  return team.reduce(
             count, std::int32_t(0),
             [=](std::int64_t node) {
               return node > 0 && node_above(parent, static_cast<Index>(node)) < 0 ? 1 : 0;
             },
             [](std::int32_t a, std::int32_t b) { return a > b ? a : b; }) != 0;
}

}  // namespace kernel
}  // namespace hunch

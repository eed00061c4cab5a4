// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/tree_parents.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// Where links go: memory that the executor's bodies reach. No array may overlap another.
struct tree_link_arguments {
  tree_parents trees;
  std::int32_t* first_child = nullptr;   ///< [batch, nodes] out: -1 for none
  std::int32_t* next_sibling = nullptr;  ///< [batch, nodes] out: -1 for none
  hunch::status* status = nullptr;       ///< [batch] out, may be null
};

namespace kernel {

/// Turns the parents of `count` nodes into links, the children of a node in ascending order, by a
/// single thread. `first_child` is -1 for all nodes; `next_sibling` may be `parent`.
template <class Index>
HUNCH_HOST_DEVICE HUNCH_INLINE void link_nodes(std::int32_t count, const Index* parent,
                                               Index* first_child, Index* next_sibling) {
  for (Index node = static_cast<Index>(count - 1); node >= 0; --node) {
    const Index above = node_above(parent, node);
    next_sibling[node] = above >= 0 ? first_child[above] : Index(-1);
    if (above >= 0) { first_child[above] = node; }
  }
}

/// The links of a tree. One team per tree.
struct link_tree {
  tree_link_arguments args;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t* const parent = args.trees.of(index);
    const std::int32_t count = args.trees.count(index);
    std::int32_t* const child = args.first_child + args.trees.first(index);
    std::int32_t* const sibling = args.next_sibling + args.trees.first(index);
    team.for_each(args.trees.nodes, [=](std::int64_t i) { child[i] = sibling[i] = -1; });
    if (team.rank() == 0) { link_nodes(count, parent, child, sibling); }
    if (args.status == nullptr) { return; }
    const bool strays = has_strays(team, parent, count);
    if (team.rank() == 0) { args.status[index] = strays ? status::invalid_draft : status::ok; }
  }
};

}  // namespace kernel

/// First-child and next-sibling links of a batch of trees, the children of a node in ascending
/// order. Integers only, no randomness.
///
/// A node whose parent does not come before it gets no link, and its tree has the status
/// `invalid_draft`. Launches one body per tree and returns without waiting; allocates nothing.
template <Executor E>
void tree_links(E& executor, const tree_link_arguments& args) {
  executor.launch(args.trees.batch, kernel::link_tree{args});
}

}  // namespace hunch

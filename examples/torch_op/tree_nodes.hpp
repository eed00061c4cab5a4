// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/types.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/draft/tree_parents.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Attention mask, positions and links of trees of parents, in the types that torch indexes with.

namespace hunch_torch {

struct tree_nodes {
  std::int32_t batch = 0;
  std::int32_t nodes = 0;                 ///< of a tree, the root included
  const std::int64_t* parents = nullptr;  ///< [batch, nodes] -1: the root, or no node
  const std::int32_t* lengths = nullptr;  ///< [batch] committed tokens; the root is the last
  bool* mask = nullptr;                   ///< [batch, nodes, nodes] out: whether a node attends to
  std::int64_t* positions = nullptr;      ///< [batch, nodes] out: in the text
  std::int64_t* first_child = nullptr;    ///< [batch, nodes] out: -1 for none
  std::int64_t* next_sibling = nullptr;   ///< [batch, nodes] out: -1 for none
  hunch::status* status = nullptr;        ///< [batch] out
};

/// One team per tree.
struct describe_tree {
  tree_nodes args;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const tree_nodes to = args;
    const std::int64_t first = static_cast<std::int64_t>(row) * args.nodes;
    const std::int64_t* const parent = args.parents + first;
    const std::int64_t root_at = std::int64_t{args.lengths[row]} - 1;
    team.for_each(args.nodes, [=](std::int64_t node) {
      bool* const sees = to.mask + (first + node) * to.nodes;
      for (std::int32_t i = 0; i < to.nodes; ++i) { sees[i] = i == 0; }
      std::int64_t level = 0;
      for (std::int64_t up = node; up > 0; up = hunch::kernel::node_above(parent, up), ++level) {
        sees[up] = true;
      }
      to.positions[first + node] = root_at + level;
      to.first_child[first + node] = -1;
    });
    const bool wrong = team.reduce(
                           args.nodes, std::int32_t(0),
                           [=](std::int64_t node) {
                             const std::int64_t above = parent[node];
                             return above < -1 || above >= (node > 0 ? node : 0) ? 1 : 0;
                           },
                           [](std::int32_t a, std::int32_t b) { return a > b ? a : b; }) != 0;
    if (team.rank() != 0) { return; }
    hunch::kernel::link_nodes(args.nodes, parent, args.first_child + first,
                              args.next_sibling + first);
    args.status[row] = root_at < 0 ? hunch::status::invalid_parameter
                       : wrong     ? hunch::status::invalid_draft
                                   : hunch::status::ok;
  }
};

/// Describes the trees of a batch. Launches one body per tree and returns without waiting.
template <hunch::Executor E>
void describe_trees(E& executor, const tree_nodes& args) {
  executor.launch(args.batch, describe_tree{args});
}

}  // namespace hunch_torch

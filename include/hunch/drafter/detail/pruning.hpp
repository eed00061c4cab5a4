// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/prune_tree.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>

/// \file
/// How trees are pruned by a view of the target's first layers: the rows that it reads, the
/// children that it weighs, and the nodes that stay.

namespace hunch::drafter {

/// What these bodies share. Rows are those of the trees that are too large, one after the other by
/// slot, as are the nodes with children of which logits are asked for. A trivially copyable view.
template <class Real>
struct pruning {
  std::int32_t keep = 0;       ///< nodes of a tree that stay at most
  std::int32_t max_nodes = 0;  ///< of a tree
  std::int32_t slots = 0;
  std::int32_t stride = 0;                  ///< of a row of logits
  const draft_context* contexts = nullptr;  ///< [slots]
  draft_trees<Real> trees;
  row_arrays rows;
  std::int32_t* counts = nullptr;     ///< [2] rows; then what is asked for
  std::int32_t* first_row = nullptr;  ///< [slots]; -1: the tree is small enough
  std::uint8_t* inner = nullptr;      ///< [rows] not 0: the node has children
  status* statuses = nullptr;         ///< [rows]
  bool pads = false;                  ///< up to all nodes of all trees, which nobody counts, and
                                      ///< of which nobody looks at the statuses
  Real* all_logits = nullptr;         ///< [asked, stride]
  std::int32_t* slot = nullptr;       ///< [asked]
  std::int32_t* node = nullptr;       ///< [asked]
  std::int32_t* row = nullptr;        ///< [asked]
  shortlist* lists = nullptr;         ///< [asked]
  row_view<Real>* logits = nullptr;   ///< [asked]
  float* value = nullptr;             ///< [slots, max_nodes]
  std::int32_t* was = nullptr;        ///< [slots, max_nodes]
  std::int64_t* workspace = nullptr;  ///< [slots, max_nodes]

  HUNCH_HOST_DEVICE std::int64_t in_tree(std::int32_t k) const {
    return static_cast<std::int64_t>(k) * max_nodes;
  }
  /// The rows of slot k: those of a tree that is too large, where only the root is unread.
  HUNCH_HOST_DEVICE std::int32_t rows_of(std::int32_t k) const {
    const std::int32_t count = trees.count(k);
    return count > keep && contexts[k].cached == contexts[k].length - 1 ? count : 0;
  }
  /// Whether logits are asked for after a node of a tree that is too large. What does not fit into
  /// the cache has no state, and its children are not possible.
  HUNCH_HOST_DEVICE bool asks(std::int32_t k, std::int32_t node) const {
    const std::int32_t at = first_row[k] + node;
    return inner[at] != 0 && (pads || statuses[at] == status::ok);
  }
  /// How many do.
  HUNCH_HOST_DEVICE std::int32_t asked_of(std::int32_t k) const {
    const std::int32_t size = first_row[k] < 0 ? 0 : rows_of(k);
    std::int32_t asked = 0;
    for (std::int32_t node = 0; node < size; ++node) { asked += asks(k, node) ? 1 : 0; }
    return asked;
  }
  /// The part of a slot in a list of at most all nodes.
  HUNCH_HOST_DEVICE team::slot_part part(std::int32_t k, std::int32_t* count) const {
    return {.slot = k, .slots = slots, .capacity = pads ? slots * max_nodes : 0, .count = count};
  }
};

/// Places the rows of the tree of slot `k`. Those with children are wanted.
template <class Real>
struct place_prunable {
  pruning<Real> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    const draft_tree<Real> tree = step.trees.tree(k);
    const std::int32_t cached = step.contexts[k].cached;
    const team::slot_entries rows = team::list_by_slot(
        team, step.part(k, step.counts), [&](std::int32_t i) { return step.rows_of(i); },
        [&](std::int32_t at, std::int32_t node) {
          const bool has_children = tree.next_child(node, node) >= 0;
          step.inner[at] = has_children ? 1 : 0;
          step.value[step.in_tree(k) + node] = -kernel::infinity<float>;
          step.rows.set(at, {.slot = k,
                             .id = node,
                             .parent = node == 0 ? end_of_cache : tree.parent[node],
                             .position = cached + tree.depth(node),
                             .t = tree.tokens[node],
                             .wanted = has_children});
        },
        [&](std::int32_t at) { step.rows.pad(at); });
    if (team.rank() == 0) { step.first_row[k] = rows.size == 0 ? -1 : rows.first; }
  }
};

/// Asks for the logits after the nodes of slot `k` that have children.
template <class Real>
struct ask_transitions {
  pruning<Real> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    const draft_tree<Real> tree = step.trees.tree(k);
    team::list_by_slot(
        team, step.part(k, step.counts + 1), [&](std::int32_t i) { return step.asked_of(i); },
        [&](std::int32_t at, std::int32_t i) {
          // The i-th node that asks.
          std::int32_t node = 0;
          for (std::int32_t left = i; !step.asks(k, node) || left-- > 0;) { ++node; }
          step.slot[at] = k;
          step.node[at] = node;
          step.row[at] = step.first_row[k] + node;
          step.lists[at] = tree.lists[node];
          step.logits[at] = {step.all_logits + static_cast<std::int64_t>(at) * step.stride,
                             tree.lists[node].size};
        },
        [&](std::int32_t at) { step.row[at] = -1; });
  }
};

/// Weighs the children of the node that row `index` of logits is for.
template <class Real, class S>
struct weigh_children {
  pruning<Real> step;
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (step.row[index] < 0) { return; }
    const std::int32_t k = step.slot[index];
    const std::int32_t node = step.node[index];
    const draft_context& c = step.contexts[k];
    kernel::weigh_row(
        team, sampler,
        kernel::transition_row<Real>{.logits = step.logits[index],
                                     .list = step.lists[index],
                                     .parameters = c.parameters,
                                     .history = step.trees.history(k, c, node, step.lists + index),
                                     .tree = step.trees.tree(k),
                                     .node = node,
                                     .transition = step.value + step.in_tree(k)});
  }
};

/// Prunes the tree of slot `k`, which takes its shortlists along.
template <class Real>
struct prune_drafts {
  pruning<Real> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    if (step.first_row[k] < 0) { return; }
    const draft_tree<Real> tree = step.trees.tree(k);
    std::int32_t* const was = step.was + step.in_tree(k);
    kernel::prune_tree{nullptr}.of(team, {.keep = step.keep,
                                          .count = &step.trees.count(k),
                                          .tokens = tree.tokens,
                                          .parent = tree.parent,
                                          .value = step.value + step.in_tree(k),
                                          .was = was,
                                          .workspace = step.workspace + step.in_tree(k)});
    if (team.rank() != 0) { return; }
    // A node comes from where it is or from behind.
    const std::int32_t kept = step.trees.count(k);
    const std::int32_t refused = step.trees.refused[k];
    step.trees.refused[k] = -1;
    for (std::int32_t node = 0; node < kept; ++node) {
      tree.lists[node] = tree.lists[was[node]];
      if (was[node] == refused) { step.trees.refused[k] = node; }
    }
  }
};

}  // namespace hunch::drafter

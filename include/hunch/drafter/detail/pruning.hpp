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
  const status* statuses = nullptr;   ///< [rows]; nullptr: all are ok
  bool pads = false;                  ///< up to all nodes of all trees, which may not be counted
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
  /// Whether logits are asked for after a row. What does not fit into the cache has no state, and
  /// its children are not possible.
  HUNCH_HOST_DEVICE bool asks(std::int64_t at) const {
    return inner[at] != 0 && (statuses == nullptr || statuses[at] == status::ok);
  }
};

/// Places the rows of the tree of slot `k`. Those with children are wanted.
template <class Real>
struct place_prunable {
  pruning<Real> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    const pruning<Real> s = step;
    const std::int32_t first = detail::sum_before(
        team, k, [=](std::int64_t i) { return s.rows_of(static_cast<std::int32_t>(i)); });
    const std::int32_t size = s.rows_of(k);
    const draft_tree<Real> tree = s.trees.tree(k);
    const std::int32_t cached = s.contexts[k].cached;
    team.for_each(size, [=](std::int64_t i) {
      const auto node = static_cast<std::int32_t>(i);
      const bool has_children = tree.next_child(node, node) >= 0;
      s.inner[first + i] = has_children ? 1 : 0;
      s.value[s.in_tree(k) + i] = -kernel::infinity<float>;
      s.rows.set(first + node, {.slot = k,
                                .id = node,
                                .parent = node == 0 ? end_of_cache : tree.parent[node],
                                .position = cached + tree.depth(node),
                                .t = tree.tokens[node],
                                .wanted = has_children});
    });
    if (k + 1 == s.slots && s.pads) {
      const std::int32_t end = first + size;
      team.for_each(s.slots * s.max_nodes - end,
                    [=](std::int64_t i) { s.rows.pad(end + static_cast<std::int32_t>(i)); });
    }
    if (team.rank() != 0) { return; }
    s.first_row[k] = size == 0 ? -1 : first;
    if (k + 1 == s.slots) { s.counts[0] = first + size; }
  }
};

/// Asks for the logits after the nodes of slot `k` that have children.
template <class Real>
struct ask_transitions {
  pruning<Real> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    const pruning<Real> s = step;
    const std::int32_t begin = s.first_row[k];
    const std::int32_t size = begin < 0 ? 0 : s.rows_of(k);
    if (size > 0) {
      const std::int32_t first =
          detail::sum_before(team, begin, [=](std::int64_t i) { return s.asks(i) ? 1 : 0; });
      const draft_tree<Real> tree = s.trees.tree(k);
      team.for_each(size, [=](std::int64_t i) {
        if (!s.asks(begin + i)) { return; }
        const auto node = static_cast<std::int32_t>(i);
        std::int32_t at = first;
        for (std::int32_t before = 0; before < node; ++before) {
          at += s.asks(begin + before) ? 1 : 0;
        }
        s.slot[at] = k;
        s.node[at] = node;
        s.row[at] = begin + node;
        s.lists[at] = tree.lists[node];
        s.logits[at] = {s.all_logits + static_cast<std::int64_t>(at) * s.stride,
                        tree.lists[node].size};
      });
    }
    if (k + 1 < s.slots) { return; }
    const std::int32_t asked =
        detail::sum_before(team, s.counts[0], [=](std::int64_t i) { return s.asks(i) ? 1 : 0; });
    if (team.rank() == 0) { s.counts[1] = asked; }
    if (!s.pads) { return; }
    team.for_each(s.slots * s.max_nodes - asked, [=](std::int64_t i) { s.row[asked + i] = -1; });
  }
};

/// Weighs the children of the node that row `index` of logits is for.
template <class Real, class S>
struct weigh_children {
  pruning<Real> step;
  S sampler;
  static constexpr bool reads_rows = true;

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
    for (std::int32_t node = 0; node < kept; ++node) { tree.lists[node] = tree.lists[was[node]]; }
  }
};

}  // namespace hunch::drafter

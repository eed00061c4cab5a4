// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/drafter/detail/shape_tables.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// What the nodes at one depth of a tree have in common.
enum class level_logits {
  own,     ///< each has its own row of logits
  common,  ///< one row for all: a head that looks ahead does not see what was drafted
};

/// The nodes that the trees of a step are drafted from next, the frontier; the children of these;
/// and what is known of all nodes. Each slot has places of its own. A trivially copyable view.
template <TreeShape Tree, class Policy, level_logits Logits>
struct frontier {
  static constexpr bool ranked = Tree::children == child_law::ranked;
  static constexpr bool dynamic = DynamicShape<Tree>;
  static constexpr bool common = Logits == level_logits::common;
  /// Whether a length policy asks how sure the children are.
  static constexpr bool looks = !std::is_same_v<Policy, length::fixed>;
  static constexpr bool has_values = ranked || looks;
  static constexpr std::int32_t width = Tree::max_width;
  /// Places for children of one tree: of all levels where all compete at the end.
  static constexpr std::int32_t child_slots =
      (dynamic ? Tree::max_inner : Tree::max_width) * Tree::max_children;
  static constexpr std::int32_t not_staged = -1;

  shape_view shape;
  std::int32_t* sizes = nullptr;          ///< [max_batch] nodes of the frontier
  std::int32_t* nodes = nullptr;          ///< [max_batch, width] of the slot's tree
  std::int32_t* rows = nullptr;           ///< [max_batch, width] of the pass: their hidden states
  token* children = nullptr;              ///< [max_batch, child_slots]
  std::int32_t* children_at = nullptr;    ///< likewise: positions in the shortlist, if drawn
  float* child_values = nullptr;          ///< likewise: log2 of the probability of their paths
  double* child_probabilities = nullptr;  ///< likewise: of drawn children that somebody asks about
  double* entropies = nullptr;            ///< [max_batch, width] of the laws, in nats
  float* values = nullptr;                ///< [max_batch, max_nodes] as `child_values`
  std::int32_t* places = nullptr;         ///< [max_batch, max_nodes] in the shape
  std::int32_t* ids = nullptr;            ///< [max_batch, max_nodes] staged as, or `not_staged`
  std::int32_t* levels = nullptr;         ///< [max_batch] first node of the newest level; -1: the
                                          ///< slot drafts nothing. Of dynamic trees, as all below
  std::int32_t* node_of = nullptr;        ///< [max_batch, child_slots]
  std::int32_t* grown_as = nullptr;       ///< [max_batch, max_nodes]
  std::int32_t* kept_as = nullptr;        ///< [max_batch, max_nodes]
  std::int32_t* ids_before = nullptr;     ///< [max_batch, max_nodes] while nodes change places
  shortlist* lists_before = nullptr;      ///< [max_batch, max_nodes] likewise
  std::int64_t* ordered = nullptr;        ///< [max_batch, max(max_children, total - 1)]

  /// For `batch` slots. \param arrays own what it points to.
  template <class Executor>
  static frontier make(owned_arrays<Executor>& arrays, std::int32_t batch) {
    const std::int64_t slots = batch;
    const std::int64_t in_levels = slots * width;
    const std::int64_t in_trees = slots * Tree::max_nodes;
    const std::int64_t all_children = slots * child_slots;
    frontier f;
    f.shape = make_shape<Tree>(arrays);
    arrays.give(slots, f.sizes);
    arrays.give(in_levels, f.nodes, f.rows);
    arrays.give(in_trees, f.values, f.places, f.ids);
    arrays.give(all_children, f.children);
    if (!ranked) { arrays.give(all_children, f.children_at); }
    if (has_values) { arrays.give(all_children, f.child_values); }
    if (!ranked && looks) { arrays.give(all_children, f.child_probabilities); }
    if (Policy::needs_entropy) { arrays.give(in_levels, f.entropies); }
    if (!dynamic) { return f; }
    arrays.give(slots, f.levels);
    arrays.give(all_children, f.node_of);
    arrays.give(in_trees, f.grown_as, f.kept_as, f.ids_before, f.lists_before);
    arrays.give(slots * order_size, f.ordered);
    return f;
  }

  HUNCH_HOST_DEVICE static std::int64_t in_level(std::int32_t slot, std::int32_t f) {
    return static_cast<std::int64_t>(slot) * width + f;
  }
  HUNCH_HOST_DEVICE static std::int64_t in_tree(std::int32_t slot, std::int32_t node) {
    return static_cast<std::int64_t>(slot) * Tree::max_nodes + node;
  }
  HUNCH_HOST_DEVICE static std::int64_t first_child_of_node(std::int32_t slot, std::int32_t node) {
    return static_cast<std::int64_t>(slot) * child_slots +
           static_cast<std::int64_t>(node) * Tree::max_children;
  }

  /// Node f of the frontier of a slot.
  HUNCH_HOST_DEVICE std::int32_t node(std::int32_t slot, std::int32_t f) const {
    return nodes[in_level(slot, f)];
  }
  /// Where its children begin.
  HUNCH_HOST_DEVICE std::int64_t first_child(std::int32_t slot, std::int32_t f) const {
    return first_child_of_node(slot, dynamic ? node(slot, f) : f);
  }
  /// How many it is asked for.
  HUNCH_HOST_DEVICE std::int32_t asked(std::int32_t slot, std::int32_t f) const {
    return shape.asked(places[in_tree(slot, node(slot, f))]);
  }
  /// Rows of logits that the frontier of a slot needs.
  HUNCH_HOST_DEVICE std::int32_t laws(std::int32_t slot) const {
    return common ? (sizes[slot] > 0 ? 1 : 0) : sizes[slot];
  }
  /// The row of a tree's draft logits that is for node f. Nobody reads the laws of ranked children
  /// again, so that their rows are a level's.
  HUNCH_HOST_DEVICE std::int32_t law_row(std::int32_t slot, std::int32_t f) const {
    return !ranked ? node(slot, f) : common ? 0 : f;
  }

  /// Asks for the arrays of a slot, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    team::ask_nearby_of_each(team, slot, 1, sizes, levels);
    team::ask_nearby_of_each(team, 0, shape.places, shape.asked_at);
    team::ask_nearby_of_each(team, 0, shape.places * shape.each, shape.child_at);
    team::ask_nearby_of_each(team, in_level(slot, 0), width, nodes, rows, entropies);
    team::ask_nearby_of_each(team, in_tree(slot, 0), Tree::max_nodes, values, places, ids, grown_as,
                             kept_as);
    team::ask_nearby_of_each(team, first_child_of_node(slot, 0), child_slots, children, children_at,
                             child_values, child_probabilities, node_of);
  }

  /// A step begins: the slot drafts nothing.
  HUNCH_HOST_DEVICE void clear(std::int32_t slot) const {
    sizes[slot] = 0;
    if constexpr (dynamic) { levels[slot] = -1; }
  }

  /// The slot drafts from its root.
  HUNCH_HOST_DEVICE void add_root(std::int32_t slot, std::int32_t row) const {
    sizes[slot] = 1;
    nodes[in_level(slot, 0)] = 0;
    rows[in_level(slot, 0)] = row;
    values[in_tree(slot, 0)] = 0.0f;
    if constexpr (dynamic) { levels[slot] = 0; }
    add_node(slot, 0, 0);
  }

  /// A node with its place in the shape. Nobody has drafted from it.
  HUNCH_HOST_DEVICE void add_node(std::int32_t slot, std::int32_t node, std::int32_t place) const {
    places[in_tree(slot, node)] = place;
    ids[in_tree(slot, node)] = not_staged;
    if constexpr (dynamic) {
      const std::int64_t first = first_child_of_node(slot, node);
      for (std::int32_t i = 0; i < Tree::max_children; ++i) {
        children[first + i] = no_token;
        node_of[first + i] = -1;
      }
    }
  }

  /// The tree of a slot as `kernel::dynamic_tree`.
  template <class Real>
  HUNCH_HOST_DEVICE kernel::dynamic_tree dynamic_tree(std::int32_t slot,
                                                      const draft_trees<Real>& trees) const
      requires(dynamic) {
    const draft_tree<Real> tree = trees.tree(slot);
    const std::int64_t child = first_child_of_node(slot, 0);
    return {.top_k = Tree::max_children,
            .first = levels[slot],
            .count = &trees.count(slot),
            .tokens = tree.tokens,
            .parent = tree.parent,
            .value = values + in_tree(slot, 0),
            .child = children + child,
            .child_value = child_values + child,
            .node_of = node_of + child,
            .grown_as = grown_as + in_tree(slot, 0),
            .kept_as = kept_as + in_tree(slot, 0),
            .best = ordered + static_cast<std::int64_t>(slot) * order_size};
  }
  static constexpr std::int32_t order_size = [] {
    if constexpr (dynamic) {
      return Tree::max_children < Tree::total - 1 ? Tree::total - 1 : Tree::max_children;
    } else {
      return 0;
    }
  }();
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/drafter/detail/shape_tables.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// What the nodes at one depth of a tree have in common.
enum class level_logits {
  own,     ///< each has its own row of logits
  common,  ///< one row for all: a head that looks ahead does not see what was drafted
};

/// The nodes that the trees of a step are drafted from next, the frontier; the children of these;
/// and what is known of all nodes. Each slot has places of its own. A trivially copyable view of a
/// `frontier_storage`.
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

/// Owns the arrays of a `frontier`, with sizes fixed at construction.
template <TreeShape Tree, class Policy, level_logits Logits, class Executor>
class frontier_storage {
 public:
  using view_type = frontier<Tree, Policy, Logits>;

  frontier_storage(Executor& executor, const drafter_setup& setup)
      : batch_(setup.max_batch),
        shape_(executor),
        sizes_(executor, of_slots(1)),
        nodes_(executor, of_slots(view_type::width)),
        rows_(executor, of_slots(view_type::width)),
        children_(executor, of_slots(view_type::child_slots)),
        children_at_(executor, of_slots(ranked ? 0 : view_type::child_slots)),
        child_values_(executor, of_slots(view_type::has_values ? view_type::child_slots : 0)),
        child_probabilities_(executor,
                             of_slots(!ranked && view_type::looks ? view_type::child_slots : 0)),
        entropies_(executor, of_slots(Policy::needs_entropy ? view_type::width : 0)),
        values_(executor, of_slots(Tree::max_nodes)),
        places_(executor, of_slots(Tree::max_nodes)),
        ids_(executor, of_slots(Tree::max_nodes)),
        levels_(executor, of_slots(dynamic ? 1 : 0)),
        node_of_(executor, of_slots(dynamic ? view_type::child_slots : 0)),
        grown_as_(executor, of_slots(dynamic ? Tree::max_nodes : 0)),
        kept_as_(executor, of_slots(dynamic ? Tree::max_nodes : 0)),
        ids_before_(executor, of_slots(dynamic ? Tree::max_nodes : 0)),
        lists_before_(executor, of_slots(dynamic ? Tree::max_nodes : 0)),
        ordered_(executor, of_slots(view_type::order_size)) {}

  view_type view() const {
    return {.shape = shape_.view(),
            .sizes = sizes_.data(),
            .nodes = nodes_.data(),
            .rows = rows_.data(),
            .children = children_.data(),
            .children_at = children_at_.data(),
            .child_values = child_values_.data(),
            .child_probabilities = child_probabilities_.data(),
            .entropies = entropies_.data(),
            .values = values_.data(),
            .places = places_.data(),
            .ids = ids_.data(),
            .levels = levels_.data(),
            .node_of = node_of_.data(),
            .grown_as = grown_as_.data(),
            .kept_as = kept_as_.data(),
            .ids_before = ids_before_.data(),
            .lists_before = lists_before_.data(),
            .ordered = ordered_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;
  static constexpr bool ranked = view_type::ranked;
  static constexpr bool dynamic = view_type::dynamic;

  std::size_t of_slots(std::int32_t each) const {
    return static_cast<std::size_t>(batch_) * static_cast<std::size_t>(each);
  }

  std::int32_t batch_;
  shape_tables<Tree, Executor> shape_;
  buffer<std::int32_t> sizes_;
  buffer<std::int32_t> nodes_;
  buffer<std::int32_t> rows_;
  buffer<token> children_;
  buffer<std::int32_t> children_at_;
  buffer<float> child_values_;
  buffer<double> child_probabilities_;
  buffer<double> entropies_;
  buffer<float> values_;
  buffer<std::int32_t> places_;
  buffer<std::int32_t> ids_;
  buffer<std::int32_t> levels_;
  buffer<std::int32_t> node_of_;
  buffer<std::int32_t> grown_as_;
  buffer<std::int32_t> kept_as_;
  buffer<std::int32_t> ids_before_;
  buffer<shortlist> lists_before_;
  buffer<std::int64_t> ordered_;
};

}  // namespace hunch::drafter

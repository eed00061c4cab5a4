// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/level_lists.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// What the nodes at one depth of a tree have in common.
enum class level_logits {
  own,     ///< each has its own row of logits
  common,  ///< one row for all: a head that looks ahead does not see what was drafted
};

/// The nodes that the trees of a step are drafted from next, the children of these, and what is
/// known of all nodes: where the levels of `growth` lie. Children of node f of the frontier are at
/// `child_index(f)`, nodes of sequence k at `node_index(k, node)`.
/// \tparam HasValues whether somebody asks how probable children are.
template <TreeShape Tree, class Executor, bool HasValues, level_logits Logits>
class frontier {
 public:
  static constexpr bool ranked = Tree::children == child_law::ranked;
  static constexpr bool dynamic = DynamicShape<Tree>;
  static constexpr bool common = Logits == level_logits::common;
  /// Places for children of one tree: of all levels where all compete at the end.
  static constexpr std::int64_t child_slots =
      std::int64_t{dynamic ? Tree::max_inner : Tree::max_width} * Tree::max_children;
  static constexpr std::int32_t not_staged = -1;

  frontier(Executor& executor, const drafter_setup& setup)
      : child_(executor, count(setup, child_slots)),
        child_at_(executor, ranked ? 0 : count(setup, child_slots)),
        child_value_(executor, HasValues ? count(setup, child_slots) : 0),
        value_(executor, count(setup, Tree::max_nodes)),
        place_(count(setup, Tree::max_nodes)),
        staged_as_(count(setup, Tree::max_nodes)) {
    nodes.reserve(count(setup, Tree::max_width));
  }

  std::vector<frontier_node> nodes;  ///< by sequence
  std::int32_t depth = 0;            ///< of these nodes: 0 for roots

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  static std::size_t count(const drafter_setup& setup, std::int64_t of_one) {
    return index(setup.max_batch * of_one);
  }
  std::size_t size() const { return nodes.size(); }

  static std::size_t node_index(std::int32_t k, std::int32_t node) {
    return index(k) * index(Tree::max_nodes) + index(node);
  }
  static std::size_t node_index(const frontier_node& n) { return node_index(n.tree, n.node); }
  std::size_t child_index(std::size_t f) const {
    return dynamic ? first_child_slot(nodes[f].tree, nodes[f].node) : f * index(Tree::max_children);
  }
  /// Of a node of a dynamic tree.
  static std::size_t first_child_slot(std::int32_t k, std::int32_t node) {
    return index(k) * index(child_slots) + index(node * Tree::max_children);
  }

  token* child() const { return child_.data(); }
  std::int32_t* child_at() const { return child_at_.data(); }  ///< position in the shortlist
  float* child_value() const { return child_value_.data(); }   ///< log2 of the path's probability
  float* value() const { return value_.data(); }               ///< the same of nodes
  std::int32_t& place(std::size_t node) { return place_[node]; }  ///< in the shape
  std::int32_t place(std::size_t node) const { return place_[node]; }
  std::int32_t& staged_as(std::size_t node) { return staged_as_[node]; }
  std::int32_t staged_as(std::size_t node) const { return staged_as_[node]; }

  /// Whether node f of the frontier has a row of logits of its own.
  bool leads(std::size_t f) const {
    return !common || f == 0 || nodes[f - 1].tree != nodes[f].tree;
  }

  /// Children that node f of the frontier is asked for.
  std::int32_t asked(std::size_t f) const { return Tree::asked(place_[node_index(nodes[f])]); }
  /// The most that it, or one that shares its row, is asked for.
  std::int32_t max_asked(std::size_t f) const {
    std::int32_t most = 0;
    for (std::size_t g = f; g < size() && (g == f || !leads(g)); ++g) {
      most = std::max(most, asked(g));
    }
    return most;
  }

  /// Calls use(f, row) for every node, with its row among those of its tree.
  template <class Use>
  void for_each_law(Use&& use) const {
    std::int32_t row = 0;
    for (std::size_t f = 0; f < size(); ++f) {
      const bool first = f == 0 || nodes[f - 1].tree != nodes[f].tree;
      row = first || common ? 0 : row + 1;
      use(f, ranked ? row : nodes[f].node);
    }
  }

  /// Calls use(k, first, end) for every sequence with nodes [first, end).
  template <class Use>
  void for_each_tree(Use&& use) const {
    for (std::size_t first = 0, end = 0; first < size(); first = end) {
      while (end < size() && nodes[end].tree == nodes[first].tree) { ++end; }
      use(nodes[first].tree, first, end);
    }
  }

  /// A node that has a place in the shape. Nobody has drafted from it.
  void add_node(std::int32_t k, std::int32_t node, std::int32_t place_of_node) {
    place_[node_index(k, node)] = place_of_node;
    staged_as_[node_index(k, node)] = not_staged;
    if constexpr (dynamic) {
      std::fill_n(child_.data() + first_child_slot(k, node), Tree::max_children, no_token);
    }
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  buffer<token> child_;
  buffer<std::int32_t> child_at_;
  buffer<float> child_value_;
  buffer<float> value_;
  std::vector<std::int32_t> place_;
  std::vector<std::int32_t> staged_as_;
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/tree/shape.hpp>
#include <hunch/vocab/shortlist.hpp>

namespace hunch::drafter {

/// What dynamic trees (EAGLE-2) need besides a frontier: the candidates of all levels compete for
/// the next level, and at the end for the tree.
template <class Tree, class Real, class Executor, class Frontier>
class dynamic_levels {
 public:
  dynamic_levels(Executor& executor, const drafter_setup& setup)
      : trees_(executor, Frontier::count(setup, 1)),
        node_of_(executor, Frontier::count(setup, Frontier::child_slots)),
        grown_as_(executor, Frontier::count(setup, Tree::max_nodes)),
        kept_as_(executor, Frontier::count(setup, Tree::max_nodes)),
        order_(executor, Frontier::count(setup, ordered)),
        level_(Frontier::count(setup, 1)),
        was_staged_(Frontier::index(Tree::max_nodes)),
        was_list_(Frontier::index(Tree::max_nodes)) {}

  /// Begins a step of so many slots, none of which drafts.
  void begin(std::int32_t slots) { std::fill_n(level_.begin(), slots, std::int32_t{-1}); }

  /// Sequence k drafts from its root.
  void add_root(std::int32_t k) { level_[Frontier::index(k)] = 0; }

  /// Node `node` of tree k has no children yet.
  void add_node(std::int32_t k, std::int32_t node) {
    std::fill_n(node_of_.data() + Frontier::first_child_slot(k, node), Tree::max_children,
                std::int32_t{-1});
  }

  /// Makes the best of the new children of each tree that goes on its next level, and calls
  /// added(k, node) for each of these. Waits for the executor.
  template <class GoesOn, class Drafts, class Added>
  void expand(const Frontier& of, const GoesOn& goes_on, const draft_context* contexts,
              Drafts& drafts, Executor& executor, Added&& added) {
    std::int32_t tasks = 0;
    of.for_each_tree([&](std::int32_t k, std::size_t, std::size_t) {
      if (!goes_on(k)) { return; }
      trees_.data()[tasks++] = view(of, k, drafts);
      level_[Frontier::index(k)] = drafts.count(k);
    });
    if (tasks == 0) { return; }
    executor.launch(tasks, kernel::expand_dynamic{trees_.data(), Tree::max_width});
    executor.synchronize();
    of.for_each_tree([&](std::int32_t k, std::size_t, std::size_t) {
      if (!goes_on(k)) { return; }
      const std::int32_t end = drafts.count(k);
      for (std::int32_t node = level_[Frontier::index(k)]; node < end; ++node) {
        drafts.grow(k, contexts[k], node, drafts.tree(k).parent[node]);
        added(k, node);
      }
    });
  }

  /// Makes trees of the best nodes of all levels. Waits for the executor.
  template <class Drafts>
  void finish(Frontier& of, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
              Executor& executor) {
    std::int32_t tasks = 0;
    for (std::int32_t k = 0; k < slots; ++k) {
      if (drafts_from(k)) { trees_.data()[tasks++] = view(of, k, drafts); }
    }
    if (tasks == 0) { return; }
    executor.launch(tasks, kernel::keep_best{trees_.data(), Tree::total - 1});
    executor.synchronize();
    for (std::int32_t k = 0; k < slots; ++k) {
      if (drafts_from(k)) { adopt(of, k, contexts[k], drafts); }
    }
  }

 private:
  static constexpr std::int32_t ordered = std::max(Tree::max_children, Tree::total - 1);

  bool drafts_from(std::int32_t k) const { return level_[Frontier::index(k)] >= 0; }

  template <class Drafts>
  kernel::dynamic_tree view(const Frontier& of, std::int32_t k, Drafts& drafts) {
    const draft_tree<Real> tree = drafts.tree(k);
    const std::size_t nodes = Frontier::node_index(k, 0);
    const std::size_t child = Frontier::first_child_slot(k, 0);
    return {.top_k = Tree::max_children,
            .first = level_[Frontier::index(k)],
            .count = &drafts.count(k),
            .tokens = tree.tokens,
            .parent = tree.parent,
            .value = of.value() + nodes,
            .child = of.child() + child,
            .child_value = of.child_value() + child,
            .node_of = node_of_.data() + child,
            .grown_as = grown_as_.data() + nodes,
            .kept_as = kept_as_.data() + nodes,
            .best = order_.data() + Frontier::index(k) * Frontier::index(ordered)};
  }

  /// Makes the best nodes of tree k, which lie in place, a tree.
  template <class Drafts>
  void adopt(Frontier& of, std::int32_t k, const draft_context& c, Drafts& drafts) {
    const std::int32_t kept = drafts.count(k);
    const draft_tree<Real> tree = drafts.tree(k);
    const std::size_t first = Frontier::node_index(k, 0);
    for (std::size_t node = 0; node < was_staged_.size(); ++node) {
      was_staged_[node] = of.staged_as(first + node);
    }
    std::copy_n(tree.lists, Tree::max_nodes, was_list_.begin());
    drafts.plant(k, c);
    for (std::int32_t node = 0; node < kept; ++node) {
      const std::size_t at = first + Frontier::index(node);
      const std::int32_t grown = grown_as_.data()[at];
      of.staged_as(at) = grown < 0 ? Frontier::not_staged : was_staged_[Frontier::index(grown)];
      tree.lists[node] = grown < 0 ? shortlist{} : was_list_[Frontier::index(grown)];
      if (node > 0) { drafts.grow(k, c, node, tree.parent[node]); }
    }
  }

  template <class T>
  using buffer = typename Executor::template buffer<T>;

  buffer<kernel::dynamic_tree> trees_;
  buffer<std::int32_t> node_of_;
  buffer<std::int32_t> grown_as_;
  buffer<std::int32_t> kept_as_;
  buffer<std::int64_t> order_;
  std::vector<std::int32_t> level_;  ///< the first node of the newest level; -1: drafts nothing
  std::vector<std::int32_t> was_staged_;
  std::vector<shortlist> was_list_;
};

/// What other trees need: nothing.
struct no_levels {
  template <class Executor>
  no_levels(Executor&, const drafter_setup&) {}
  void begin(std::int32_t) {}
  void add_root(std::int32_t) {}
  void add_node(std::int32_t, std::int32_t) {}
};

/// The one of the two that a tree needs.
template <class Tree, class Real, class Executor, class Frontier>
struct dynamic_levels_of {
  using type = no_levels;
};
template <DynamicShape Tree, class Real, class Executor, class Frontier>
struct dynamic_levels_of<Tree, Real, Executor, Frontier> {
  using type = dynamic_levels<Tree, Real, Executor, Frontier>;
};

}  // namespace hunch::drafter

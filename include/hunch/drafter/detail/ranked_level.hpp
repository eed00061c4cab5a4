// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <hunch/core/message.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/team/canonical.hpp>

namespace hunch::drafter {

/// Makes the most probable tokens of a frontier's rows its children.
template <class Tree, class Real, class Executor, class Frontier>
class ranked_level {
 public:
  /// \throws std::invalid_argument if so many children cannot be ranked in such a vocabulary.
  ranked_level(Executor& executor, const drafter_setup& setup)
      : stride_(checked_stride(setup)),
        tasks_(executor, Frontier::count(setup, Tree::max_width)),
        laws_(executor, Frontier::count(setup, Tree::max_width)),
        best_(executor, Frontier::count(setup, std::int64_t{Tree::max_width} * stride_)) {}

  /// Waits for the executor.
  template <class Drafts, class S, class Draw>
  void operator()(Frontier& of, const draft_context* contexts, Drafts& drafts, const S& sampler,
                  const Draw&, Executor& executor) {
    std::int32_t asked = 0;
    of.for_each_law([&](std::size_t f, std::int32_t row) {
      if (!of.leads(f)) { return; }
      const frontier_node& n = of.nodes[f];
      const draft_context& c = contexts[n.tree];
      const shortlist* const list = drafts.tree(n.tree).lists + n.node;
      tasks_.data()[asked] = {
          .logits = {drafts.logits(n.tree, row), list->size},
          .list = *list,
          .parameters = c.parameters,
          .history = drafts.history(n.tree, c, n.node, list),
          .value = of.value()[of.node_index(n)],
          .count = of.max_asked(f),
          .best = best_.data() + Frontier::index(asked) * Frontier::index(stride_),
          .ranked_by = laws_.data() + asked,
          .children = of.child() + of.child_index(f),
          .values = of.child_value() + of.child_index(f)};
      ++asked;
    });
    executor.launch(asked, kernel::rank_children<Real, S>{tasks_.data(), sampler});
    executor.synchronize();
    for (std::size_t f = 0; f < of.size(); ++f) {
      if (!of.leads(f)) { copy_children(of, f); }
    }
  }

  /// What the `row`-th law of the level is, of node `n`.
  template <class Drafts>
  const law<Real>* law_of(std::int32_t row, const frontier_node&, Drafts&) const {
    return laws_.data() + row;
  }

 private:
  /// Best elements of the tiles of a row, and of the row.
  static std::int32_t checked_stride(const drafter_setup& setup) {
    const auto tiles = static_cast<std::int32_t>(team::tiles_of(setup.vocab_size));
    if (tiles * Tree::max_children > team::list_capacity) {
      throw std::invalid_argument(message({"hunch::drafter: a tree that ranks ", Tree::max_children,
                                           " children of a node, and a vocabulary of ",
                                           setup.vocab_size, ": too many for a team"}));
    }
    return (tiles + 1) * Tree::max_children;
  }

  /// Gives node f of the frontier the children of the one before it, with which it shares a row.
  static void copy_children(Frontier& of, std::size_t f) {
    const std::size_t from = of.child_index(f - 1);
    const std::size_t to = of.child_index(f);
    const float own = of.value()[of.node_index(of.nodes[f])];
    const float more = own - of.value()[of.node_index(of.nodes[f - 1])];
    for (std::size_t i = 0; i < Frontier::index(Tree::max_children); ++i) {
      of.child()[to + i] = of.child()[from + i];
      // Not above that of the node itself, not even by rounding: parents come before children.
      of.child_value()[to + i] = std::min(of.child_value()[from + i] + more, own);
    }
  }

  template <class T>
  using buffer = typename Executor::template buffer<T>;

  std::int32_t stride_;
  buffer<kernel::ranked_row<Real>> tasks_;
  buffer<law<Real>> laws_;
  buffer<std::int64_t> best_;
};

}  // namespace hunch::drafter

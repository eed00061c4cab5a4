// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/distribution/law.hpp>
#include <hunch/draft/detail/copy_rows.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/model/rows.hpp>

namespace hunch::drafter {

/// Draws the children of a frontier from their laws, which are stored with the draft.
template <class Tree, class Real, class Executor, class Frontier>
class drawn_level {
 public:
  drawn_level(Executor& executor, const drafter_setup& setup)
      : copies_(executor, Frontier::common ? Frontier::count(setup, Tree::max_width) : 0),
        tasks_(executor, Frontier::count(setup, Tree::max_width)) {}

  /// Waits for the executor.
  template <class Drafts, class S, class Draw>
  void operator()(Frontier& of, const draft_context* contexts, Drafts& drafts, const S& sampler,
                  const Draw& draw, Executor& executor) {
    std::int32_t copies = 0;
    const Real* row_of_all = nullptr;
    of.for_each_law([&](std::size_t f, std::int32_t row) {
      const frontier_node& n = of.nodes[f];
      const draft_context& c = contexts[n.tree];
      const draft_tree<Real> tree = drafts.tree(n.tree);
      const row_view<Real> logits{drafts.logits(n.tree, row), tree.lists[n.node].size};
      if (of.leads(f)) {
        row_of_all = logits.data;
      } else {
        copies_.data()[copies++] = {row_of_all, logits};
      }
      tasks_.data()[f] = {.logits = logits,
                          .list = tree.lists[n.node],
                          .parameters = c.parameters,
                          .history = drafts.history(n.tree, c, n.node, tree.lists + n.node),
                          .where = {.seed = c.seed,
                                    .length = static_cast<std::uint32_t>(c.length),
                                    .node = static_cast<std::uint32_t>(n.node),
                                    .sibling = 0,
                                    .what = purpose::draft},
                          .position = static_cast<std::uint32_t>(c.length + of.depth),
                          .drawn_from = tree.laws + n.node,
                          .drawn_at = of.child_at() + of.child_index(f),
                          .drawn = of.child() + of.child_index(f),
                          .count = of.asked(f)};
    });
    if (copies > 0) { executor.launch(copies, kernel::copy_rows<Real>{copies_.data()}); }
    executor.launch(
        static_cast<std::int32_t>(of.size()),
        kernel::draw_children<Real, S, Draw, Tree::max_children>{tasks_.data(), sampler, draw});
    executor.synchronize();
  }

  /// What the `row`-th law of the level is, of node `n`.
  template <class Drafts>
  const law<Real>* law_of(std::int32_t, const frontier_node& n, Drafts& drafts) const {
    return drafts.tree(n.tree).laws + n.node;
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  buffer<kernel::row_copy<Real>> copies_;
  buffer<kernel::draft_row<Real>> tasks_;
};

}  // namespace hunch::drafter

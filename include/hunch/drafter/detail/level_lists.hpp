// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/drafter/drafter.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::drafter {

/// A node whose children are drafted next.
struct frontier_node {
  std::int32_t tree = 0;  ///< its slot
  std::int32_t node = 0;  ///< of that tree
  std::int32_t row = 0;   ///< of the model's pass: where its hidden state is
};

/// The shortlists of the nodes that are drafted from at a depth, and what a head computes of them.
template <class Real, class Executor>
class level_lists {
 public:
  /// \param capacity of nodes.
  level_lists(Executor& executor, const vocab_layout& layout, std::size_t capacity)
      : layout_(&layout),
        token_(executor, capacity),
        ranges_(executor, capacity),
        count_(executor, capacity),
        state_(executor, capacity),
        tree_(executor, capacity),
        node_(executor, capacity),
        row_(executor, capacity),
        list_(executor, capacity),
        logits_(executor, capacity) {}

  /// Begins with no nodes.
  void clear() { size_ = 0; }

  /// Asks for a node, whose logits go to row `law_row` of those of its tree. The nodes of a tree
  /// are adjacent.
  /// \tparam Selector that will choose: one with a router reads the context of the node's row.
  template <class Selector, class Drafts, class Hidden>
  void ask(const frontier_node& n, std::int32_t law_row, Drafts& drafts,
           [[maybe_unused]] Hidden& hidden) {
    token_.data()[size_] = drafts.tree(n.tree).tokens[n.node];
    ranges_.data()[size_] = drafts.ranges(n.tree, n.node);
    tree_.data()[size_] = n.tree;
    state_.data()[size_] = nullptr;
    if constexpr (RoutedSelector<Selector>) { state_.data()[size_] = hidden.context(n.row); }
    row_.data()[size_] = n.row;
    node_.data()[size_] = n.node;
    logits_.data()[size_].data = drafts.logits(n.tree, law_row);
    ++size_;
  }

  /// Chooses the shortlists of these nodes.
  /// \param depth of the nodes.
  template <class Drafts, class Selector>
  head_rows<Real> choose(std::int32_t depth, Drafts& drafts, Selector& selector) {
    selector.select(selector_contexts{.size = size_,
                                      .depth = depth,
                                      .tokens = token_.data(),
                                      .states = state_.data(),
                                      .trees = tree_.data()},
                    selector_lists{ranges_.data(), count_.data()});
    for (std::int32_t i = 0; i < size_; ++i) {
      const std::int32_t k = tree_.data()[i];
      const std::int32_t node = node_.data()[i];
      const shortlist list =
          layout_->list(ranges_.data()[i], count_.data()[i], drafts.shifts(k, node));
      drafts.tree(k).lists[node] = list;
      list_.data()[i] = list;
      logits_.data()[i].size = list.size;
    }
    return {size_, row_.data(), list_.data(), logits_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  const vocab_layout* layout_;
  std::int32_t size_ = 0;
  buffer<token> token_;
  buffer<row_range*> ranges_;
  buffer<std::int32_t> count_;
  buffer<const float*> state_;
  buffer<std::int32_t> tree_;
  buffer<std::int32_t> node_;
  buffer<std::int32_t> row_;
  buffer<shortlist> list_;
  buffer<row_view<Real>> logits_;
};

}  // namespace hunch::drafter

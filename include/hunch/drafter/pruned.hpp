// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/prune_tree.hpp>
#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/canonical.hpp>

namespace hunch::drafter {

/// The trees of another drafter, of which only the likely paths go through all of the target: its
/// first layers read the whole tree, say how probable each child is after its parent, and the
/// target's pass goes on after these layers with what is left. (The tree pruning of Speculative
/// Streaming: Bhendawade et al. 2024, arXiv:2402.11131; of any ranked drafter here.)
///
/// Children are ranked, not drawn, so that whatever is taken out, what is emitted has the target's
/// law: lossless with every lossless verifier that needs no draft law. For children that were drawn
/// that would not be so: they are refused. Waits for the executor once more than the other drafter,
/// in steps in which a tree has more than `keep` nodes.
///
/// \tparam D a `Drafter` with ranked children, a selector, and no cache of its own.
/// \tparam View models `DraftModel` and shares the target's cache; a reference where the caller
///         keeps it. Its head has the selector's order.
template <class D, class View>
class pruned {
  using inner_type = std::remove_reference_t<D>;
  using view_type = std::remove_reference_t<View>;
  static_assert(Drafter<inner_type>,
                "hunch: the first argument of drafter::pruned must model hunch::Drafter, such as "
                "drafter::streaming or drafter::heads");
  static_assert(inner_type::children == child_law::ranked,
                "hunch: drafter::pruned takes nodes out of trees, which is exact for ranked "
                "children only: use tree::fixed or tree::dynamic");
  static_assert(inner_type::uses_selector && !reads_own_draft<inner_type>,
                "hunch: drafter::pruned needs a drafter that has shortlists and no cache of its "
                "own, such as drafter::streaming or drafter::heads");
  static_assert(shares_target_cache<view_type>,
                "hunch: the second argument of drafter::pruned must be a view of the target's "
                "first layers: a DraftModel with shares_target_cache");

 public:
  static constexpr std::int32_t max_nodes = inner_type::max_nodes;
  static constexpr child_law children = inner_type::children;
  static constexpr bool is_chain = inner_type::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = inner_type::needs_hidden;
  static constexpr std::int32_t streams = streams_of<inner_type>();
  static constexpr std::int32_t law_rows = law_rows_of<inner_type>();
  static_assert(max_nodes <= team::list_capacity);

  /// \param keep nodes of a tree that stay at most, with its root.
  /// \throws std::invalid_argument if that is none.
  pruned(D&& drafter, View&& view, std::int32_t keep)
      : drafter_(std::forward<D>(drafter)), view_(std::forward<View>(view)), keep_(keep) {
    if (keep < 1) {
      throw std::invalid_argument(
          message({"hunch::drafter::pruned: ", keep, " nodes are to be kept, not even the root"}));
    }
  }

  inner_type& drafter() { return drafter_; }
  view_type& view() { return view_; }

  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    return drafter_.hidden_size();
  }

  template <class Real, class Executor>
  struct state {
    using real = Real;
    state(Executor& executor, const drafter_setup& setup)
        : inner(executor, setup),
          stride((setup.max_rows + 3) / 4 * 4),
          rows(executor, setup.max_batch * max_nodes),
          logits(executor, nodes(setup) * static_cast<std::size_t>(stride)),
          row(executor, nodes(setup)),
          lists(executor, nodes(setup)),
          views(executor, nodes(setup)),
          weighed(executor, nodes(setup)),
          value(executor, nodes(setup)),
          was(executor, nodes(setup)),
          workspace(executor, nodes(setup)),
          trees(executor, static_cast<std::size_t>(setup.max_batch)),
          slot_of(static_cast<std::size_t>(setup.max_batch)) {}

    template <class T>
    using buffer = typename Executor::template buffer<T>;
    static std::size_t nodes(const drafter_setup& setup) {
      return static_cast<std::size_t>(setup.max_batch) * static_cast<std::size_t>(max_nodes);
    }

    typename inner_type::template state<Real, Executor> inner;
    std::int32_t stride;  ///< of a row of logits
    staged_rows<Executor> rows;
    // Of the nodes with children.
    buffer<Real> logits;
    buffer<std::int32_t> row;
    buffer<shortlist> lists;
    buffer<row_view<Real>> views;
    buffer<kernel::transition_row<Real>> weighed;
    // Of all nodes.
    buffer<float> value;
    buffer<std::int32_t> was;
    buffer<std::int64_t> workspace;
    // Of trees.
    buffer<kernel::prunable_tree> trees;
    std::vector<std::int32_t> slot_of;  ///< of the trees that are pruned
  };

  void check(const drafter_setup& setup) {
    drafter_.check(setup);
    drafter_setup of_view = setup;
    of_view.context_width = 0;  // shortlists are the drafter's
    check_model("hunch::drafter::pruned", "the view", view_, of_view);
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    drafter_.propose(s.inner, slots, contexts, drafts, selector, sampler, draw, executor);
    executor.synchronize();  // the trees are there
    const std::int32_t asked = place_rows(s, slots, contexts, drafts);
    if (asked == 0) { return; }
    auto hidden = view_.forward(s.rows.view());
    std::int32_t weighed = 0;
    std::int32_t first = 0;
    for (std::int32_t i = 0; i < asked; ++i) {
      const std::int32_t k = s.slot_of[static_cast<std::size_t>(i)];
      s.trees.data()[i] = ask(s, k, contexts[k], drafts, hidden, first, weighed);
      first += drafts.count(k);
    }
    view_.head(hidden, head_rows<typename State::real>{weighed, s.row.data(), s.lists.data(),
                                                       s.views.data()});
    executor.launch(weighed,
                    kernel::weigh_transitions<typename State::real, S>{s.weighed.data(), sampler});
    prune_trees(executor, asked, s.trees.data());
    executor.synchronize();
    for (std::int32_t i = 0; i < asked; ++i) {
      const std::int32_t k = s.slot_of[static_cast<std::size_t>(i)];
      adopt(s.was.data() + node_index(k, 0), k, contexts[k], drafts);
    }
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    drafter_.observe(s.inner, outcomes, evaluation, executor);
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    drafter_.release(s.inner, slot, executor);
  }

 private:
  static std::size_t node_index(std::int32_t k, std::int32_t node) {
    return static_cast<std::size_t>(k) * static_cast<std::size_t>(max_nodes) +
           static_cast<std::size_t>(node);
  }

  /// The rows of the trees that are too large, where only the root is unread. Those with children
  /// are wanted. Returns the number of trees.
  template <class State, class Drafts>
  std::int32_t place_rows(State& s, std::int32_t slots, const draft_context* contexts,
                          Drafts& drafts) const {
    s.rows.clear();
    std::int32_t asked = 0;
    for (std::int32_t k = 0; k < slots; ++k) {
      const draft_context& c = contexts[k];
      const auto tree = drafts.tree(k);
      if (tree.count <= keep_ || c.cached != c.length - 1) { continue; }
      for (std::int32_t node = 0; node < tree.count; ++node) {
        s.rows.push({.slot = k,
                     .id = node,
                     .parent = node == 0 ? end_of_cache : tree.parent[node],
                     .position = c.cached + tree.depth(node),
                     .t = tree.tokens[node],
                     .wanted = tree.next_child(node, node) >= 0});
      }
      s.slot_of[static_cast<std::size_t>(asked++)] = k;
    }
    return asked;
  }

  /// Asks for the children of the nodes of tree k, whose rows begin at `first`; returns what is to
  /// be pruned. What does not fit into the cache has no state, and its children are not possible.
  template <class State, class Drafts, class Hidden>
  kernel::prunable_tree ask(State& s, std::int32_t k, const draft_context& c, Drafts& drafts,
                            Hidden& hidden, std::int32_t first, std::int32_t& weighed) const {
    const auto tree = drafts.tree(k);
    float* const value = s.value.data() + node_index(k, 0);
    std::fill_n(value, tree.count, -kernel::infinity<float>);
    for (std::int32_t node = 0; node < tree.count; ++node) {
      if (tree.next_child(node, node) < 0 || hidden.status(first + node) != status::ok) {
        continue;
      }
      const shortlist list = tree.lists[node];
      s.row.data()[weighed] = first + node;
      s.lists.data()[weighed] = list;
      s.views.data()[weighed] = {s.logits.data() + static_cast<std::ptrdiff_t>(weighed) * s.stride,
                                 list.size};
      s.weighed.data()[weighed] = {.logits = s.views.data()[weighed],
                                   .list = list,
                                   .parameters = c.parameters,
                                   .history = drafts.history(k, c, node, tree.lists + node),
                                   .tree = tree,
                                   .node = node,
                                   .transition = value};
      ++weighed;
    }
    return {.keep = keep_,
            .count = &drafts.count(k),
            .tokens = tree.tokens,
            .parent = tree.parent,
            .value = value,
            .was = s.was.data() + node_index(k, 0),
            .workspace = s.workspace.data() + node_index(k, 0)};
  }

  /// Makes what is left of tree k, which lies in place, a tree.
  template <class Drafts>
  static void adopt(const std::int32_t* was, std::int32_t k, const draft_context& c,
                    Drafts& drafts) {
    const std::int32_t kept = drafts.count(k);
    const auto tree = drafts.tree(k);
    drafts.plant(k, c);
    for (std::int32_t node = 0; node < kept; ++node) {
      tree.lists[node] = tree.lists[was[node]];
      if (node > 0) { drafts.grow(k, c, node, tree.parent[node]); }
    }
  }

  D drafter_;
  View view_;
  std::int32_t keep_;
};

template <class D, class View>
pruned(D&&, View&&, std::int32_t) -> pruned<D, View>;

}  // namespace hunch::drafter

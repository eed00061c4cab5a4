// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/drawn_level.hpp>
#include <hunch/drafter/detail/dynamic_levels.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/detail/level_evidence.hpp>
#include <hunch/drafter/detail/level_lists.hpp>
#include <hunch/drafter/detail/ranked_level.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// Grows the draft trees of a step level by level: shortlists for the frontier, places for its
/// logits, children from their laws, and the nodes that become of them. What drafters with a law
/// have in common; where logits come from is theirs.
///
/// Between two levels the caller may take nodes out of the frontier, which is exact as long as it
/// does not depend on what was not drawn yet: a cache is full.
template <TreeShape Tree, LengthPolicy Policy, class Real, class Executor,
          level_logits Logits = level_logits::own>
class growth {
  static constexpr bool ranked = Tree::children == child_law::ranked;
  static constexpr bool dynamic = DynamicShape<Tree>;
  static constexpr bool common = Logits == level_logits::common;
  static constexpr bool looks = !std::is_same_v<Policy, length::fixed>;

  using frontier_type = drafter::frontier<Tree, Executor, ranked || looks, Logits>;
  using evidence_type = level_evidence<Tree, Policy, Real, Executor, frontier_type>;
  using level_type = std::conditional_t<ranked, ranked_level<Tree, Real, Executor, frontier_type>,
                                        drawn_level<Tree, Real, Executor, frontier_type>>;
  using dynamic_type = typename dynamic_levels_of<Tree, Real, Executor, frontier_type>::type;

 public:
  /// Rows of draft logits that one tree needs at the same time. Nobody reads the laws of ranked
  /// children again, so that their rows are a level's.
  static constexpr std::int32_t law_rows = !ranked ? Tree::max_inner : common ? 1 : Tree::max_width;
  static constexpr std::int32_t not_staged = frontier_type::not_staged;

  /// \throws std::invalid_argument if so many children cannot be ranked in such a vocabulary.
  growth(Executor& executor, const drafter_setup& setup)
      : lists_(executor, *setup.layout, frontier_type::count(setup, Tree::max_width)),
        frontier_(executor, setup),
        level_(executor, setup),
        evidence_(executor, setup),
        dynamic_(executor, setup),
        lengths_(executor, setup.max_batch),
        continues_(frontier_type::count(setup, 1)) {
    next_.reserve(frontier_type::count(setup, Tree::max_width));
  }

  /// The nodes that are drafted from next, by sequence.
  std::vector<frontier_node>& frontier() { return frontier_.nodes; }
  /// Of these nodes: 0 for roots.
  std::int32_t depth() const { return frontier_.depth; }

  /// Begins a step. All trees are lone roots that nobody drafts from.
  void begin(const Policy& policy, std::int32_t slots) {
    frontier_.nodes.clear();
    frontier_.depth = 0;
    const slot_lengths<Policy> lengths = lengths_.with(policy);
    for (std::int32_t slot = 0; slot < slots; ++slot) { lengths.begin(slot, 0); }
    dynamic_.begin(slots);
  }

  /// Whether a sequence that may draft is to: if so, `add_root` follows.
  bool opens(const Policy& policy, std::int32_t slot, const draft_context& c) {
    return lengths_.with(policy).begin(slot, std::min(c.max_depth, Tree::max_depth)) > 0;
  }

  /// The sequence of slot k drafts. In ascending order of k.
  /// \param row of the pass, whose hidden state is that of the root.
  void add_root(std::int32_t k, std::int32_t row) {
    frontier_.nodes.push_back({.tree = k, .node = 0, .row = row});
    dynamic_.add_root(k);
    frontier_.value()[frontier_type::node_index(k, 0)] = 0.0f;
    add_node(k, 0, 0);
  }

  /// Sets the id under which a node's row is staged; `not_staged` if it is not.
  void set_staged(const frontier_node& n, std::int32_t id) {
    frontier_.staged_as(frontier_type::node_index(n)) = id;
  }
  /// What was set for a node of the growing tree k, or of the finished one.
  std::int32_t staged_as(std::int32_t k, std::int32_t node) const {
    return frontier_.staged_as(frontier_type::node_index(k, node));
  }

  /// Drafts the children of the frontier, whose rows of a pass are in `hidden`: the selector's
  /// shortlists, the model's head over them, children of the laws. Those that are drafted from, if
  /// the policy says so, are the new frontier; their rows are the caller's to fill in. Waits for
  /// the executor.
  template <class Model, class Hidden, class Drafts, VocabSelector Selector, class S, class Draw>
  void draft_level(Model& model, Hidden& hidden, const Policy& policy,
                   const draft_context* contexts, Drafts& drafts, Selector& selector,
                   const S& sampler, const Draw& draw, Executor& executor) {
    if constexpr (RoutedSelector<Selector>) {
      static_assert(
          requires {
            { hidden.context(0) } -> std::convertible_to<const float*>;
          },
          "hunch: a selector with a router, or selector::any, which may hold one, asks the draft "
          "model for contexts: context_width(), and context(row) of what forward returns");
    }
    const head_rows<Real> rows = choose_lists(drafts, selector, hidden);
    model.head(hidden, rows);
    if constexpr (AdvisingSelector<Selector, Real>) {
      executor.synchronize();  // the logits are there
      selector.advise(rows);
    }
    grow(policy, contexts, drafts, sampler, draw, executor);
  }

  /// Drafts all levels from one pass, and makes trees of them: what drafters do that look ahead.
  /// The logits of sequence k at level j are those of row first_row(k) + j of `hidden`.
  template <class Model, class Hidden, class FirstRow, class Drafts, VocabSelector Selector,
            class S, class Draw>
  void draft_ahead(Model& model, Hidden& hidden, const FirstRow& first_row, const Policy& policy,
                   std::int32_t slots, const draft_context* contexts, Drafts& drafts,
                   Selector& selector, const S& sampler, const Draw& draw,
                   Executor& executor) requires(common) {
    while (!frontier_.nodes.empty()) {
      for (frontier_node& n : frontier_.nodes) { n.row = first_row(n.tree) + frontier_.depth; }
      draft_level(model, hidden, policy, contexts, drafts, selector, sampler, draw, executor);
    }
    finish(slots, contexts, drafts, executor);
  }

  /// What became of the step; noexcept, as `Drafter` asks.
  void observe(const Policy& policy, const draft_outcomes& outcomes) noexcept {
    lengths_.with(policy).observe(outcomes);
  }
  void release(const Policy& policy, std::int32_t slot) noexcept {
    lengths_.with(policy).release(slot);
  }

  /// Makes trees of what was grown. Waits for the executor.
  template <class Drafts>
  void finish(std::int32_t slots, const draft_context* contexts, Drafts& drafts,
              Executor& executor) {
    if constexpr (dynamic) { dynamic_.finish(frontier_, slots, contexts, drafts, executor); }
  }

 private:
  /// Chooses the shortlists of the frontier. Returns which rows of the model's pass go through its
  /// head, over which of its rows, and where to.
  template <class Drafts, class Selector, class Hidden>
  head_rows<Real> choose_lists(Drafts& drafts, Selector& selector, Hidden& hidden) {
    lists_.clear();
    frontier_.for_each_law([&](std::size_t f, std::int32_t row) {
      if (frontier_.leads(f)) {
        lists_.template ask<Selector>(frontier_.nodes[f], row, drafts, hidden);
      }
    });
    const head_rows<Real> rows = lists_.choose(frontier_.depth, drafts, selector);
    for (std::size_t f = 0; f < frontier_.size(); ++f) {
      const frontier_node& n = frontier_.nodes[f];
      const auto lists = drafts.tree(n.tree).lists;
      if (!frontier_.leads(f)) { lists[n.node] = lists[frontier_.nodes[f - 1].node]; }
    }
    return rows;
  }

  /// Makes children of the logits of the frontier, and a new frontier.
  template <class Drafts, class S, class Draw>
  void grow(const Policy& policy, const draft_context* contexts, Drafts& drafts, const S& sampler,
            const Draw& draw, Executor& executor) {
    level_(frontier_, contexts, drafts, sampler, draw, executor);
    ++frontier_.depth;
    ask(policy, contexts, drafts, S::always_greedy, executor);
    next_.clear();
    if constexpr (dynamic) {
      dynamic_.expand(
          frontier_, [this](std::int32_t k) { return continues(k); }, contexts, drafts, executor,
          [this](std::int32_t k, std::int32_t node) {
            add_node(k, node, frontier_.depth);
            next_.push_back({.tree = k, .node = node, .row = -1});
          });
    } else {
      for (std::size_t f = 0; f < frontier_.size(); ++f) { link(contexts, drafts, f); }
    }
    frontier_.nodes.swap(next_);
  }

  /// Asks the policy of every sequence whether it goes on after the level that was just drawn.
  template <class Drafts>
  void ask(const Policy& policy, const draft_context* contexts, Drafts& drafts, bool always_greedy,
           Executor& executor) {
    evidence_.take(frontier_, level_, drafts, executor);
    const slot_lengths<Policy> lengths = lengths_.with(policy);
    frontier_.for_each_tree([&](std::int32_t k, std::size_t first, std::size_t end) {
      length_evidence evidence = evidence_.of_tree(frontier_, k, first, end, drafts);
      evidence.drawn =
          looks && !ranked && !always_greedy && contexts[k].parameters.temperature > 0.0f;
      const bool more = lengths.drew(k) && lengths.continues(k, evidence);
      continues_[frontier_type::index(k)] = more ? 1 : 0;
    });
  }

  bool continues(std::int32_t k) const { return continues_[frontier_type::index(k)] != 0; }

  void add_node(std::int32_t k, std::int32_t node, std::int32_t place) {
    frontier_.add_node(k, node, place);
    dynamic_.add_node(k, node);
  }

  /// Makes nodes of the children of node f of the frontier that have a place in the shape.
  template <class Drafts>
  void link(const draft_context* contexts, Drafts& drafts, std::size_t f) {
    const frontier_node& n = frontier_.nodes[f];
    const draft_context& c = contexts[n.tree];
    const draft_tree<Real> tree = drafts.tree(n.tree);
    const std::int32_t place = frontier_.place(frontier_type::node_index(n));
    for (std::int32_t i = 0; i < Tree::asked(place); ++i) {
      const std::size_t child = frontier_.child_index(f) + frontier_type::index(i);
      const std::int32_t place_of_child = Tree::child(place, i);
      const token t = frontier_.child()[child];
      if (t == no_token) { return; }  // a broken row, or nothing is left
      if (place_of_child < 0) { continue; }
      const std::int32_t node = drafts.count(n.tree);
      tree.tokens[node] = t;
      if constexpr (!ranked) { tree.drawn_at[node] = frontier_.child_at()[child]; }
      if constexpr (ranked || looks) {
        frontier_.value()[frontier_type::node_index(n.tree, node)] = frontier_.child_value()[child];
      }
      drafts.grow(n.tree, c, node, n.node);
      add_node(n.tree, node, place_of_child);
      if (continues(n.tree) && Tree::asked(place_of_child) > 0) {
        next_.push_back({.tree = n.tree, .node = node, .row = -1});
      }
    }
  }

  level_lists<Real, Executor> lists_;
  frontier_type frontier_;
  level_type level_;
  evidence_type evidence_;
  dynamic_type dynamic_;
  length_slots<Policy, Executor> lengths_;
  std::vector<char> continues_;  ///< of the sequences of the step
  std::vector<frontier_node> next_;
};

}  // namespace hunch::drafter

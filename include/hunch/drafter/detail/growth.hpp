// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include <hunch/core/message.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/drafter/detail/drawn_level.hpp>
#include <hunch/drafter/detail/end_level.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/drafter/detail/ranked_level.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/executor/in_order.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/tree/shape.hpp>
#include <hunch/vocab/layout_tables.hpp>

namespace hunch::drafter {

/// Grows the draft trees of a step level by level: shortlists for the frontier, places for its
/// logits, children from their laws, and the nodes that become of them. What drafters with a law
/// have in common; where logits come from is theirs. All that is decided on the way is decided by
/// bodies, on arrays in the executor's memory, which drafters read in bodies of their own: `view`.
///
/// Between two levels the caller may take nodes out of the frontier, which is exact as long as it
/// does not depend on what was not drawn yet: a cache is full.
template <TreeShape Tree, LengthPolicy Policy, class Real, class Executor,
          level_logits Logits = level_logits::own>
class growth {
 public:
  using view_type = growing<Tree, Policy, Real, Logits>;
  using frontier_type = typename view_type::frontier_type;

 private:
  static constexpr bool ranked = frontier_type::ranked;
  static constexpr bool dynamic = frontier_type::dynamic;
  static constexpr bool common = frontier_type::common;
  static constexpr std::int32_t asks_per_slot = common ? 1 : frontier_type::width;
  static_assert(!dynamic || ranked, "hunch: the children of a dynamic tree are ranked");

 public:
  /// Rows of draft logits that one tree needs at the same time.
  static constexpr std::int32_t law_rows = !ranked ? Tree::max_inner : common ? 1 : Tree::max_width;

  /// \throws std::invalid_argument if so many children cannot be ranked in such a vocabulary.
  growth(Executor& executor, const drafter_setup& setup)
      : tables_(executor, *setup.layout),
        arrays_(executor),
        frontier_(frontier_type::make(arrays_, setup.max_batch)),
        lengths_(executor, setup.max_batch) {
    const std::int64_t size = std::int64_t{setup.max_batch} * asks_per_slot;
    asks_.best_stride = ranked ? checked_stride(setup) : 0;
    arrays_.give(1, asks_.count);
    arrays_.give(size, asks_.slot, asks_.leader, asks_.row, asks_.tokens, asks_.states,
                 asks_.ranges, asks_.range_count, asks_.lists, asks_.logits);
    if (ranked) { arrays_.give(size, asks_.laws); }
    arrays_.give(size * asks_.best_stride, asks_.best);
  }

  /// What bodies see of the first `slots` slots.
  view_type view(const Policy& policy, std::int32_t slots, const draft_context* contexts,
                 const draft_trees<Real>& trees) const {
    return {.of = frontier_,
            .asks = asks_,
            .lengths = lengths_.with(policy),
            .trees = trees,
            .contexts = contexts,
            .slots = slots,
            .depth = 0};
  }
  slot_lengths<Policy> lengths(const Policy& policy) const { return lengths_.with(policy); }
  /// Launches what forgets what was learnt of a slot.
  void release(std::int32_t slot, Executor& executor) const { lengths_.release(slot, executor); }

  /// Rows of logits that so many slots ask for at most.
  static std::int32_t asks(std::int32_t slots) { return slots * asks_per_slot; }

  /// Launches `before`, asks for the rows of logits of the frontier at `g.depth` that is there
  /// then, and chooses their shortlists. Returns how many rows are asked for. \param contexts what
  /// a model knows of the rows of its pass: `context_rows`, or hidden states; nobody looks unless
  /// the selector has a router.
  template <class Contexts, class Selecting, class... Before>
  std::int32_t choose_lists(const view_type& g, [[maybe_unused]] Contexts& contexts,
                            Selecting& selector, Executor& executor, const Before&... before) {
    using selector_type = typename Selecting::selector_type;
    constexpr bool routes = RoutedSelector<selector_type>;
    context_rows of_all;
    if constexpr (routes) { of_all = contexts_of_all(contexts); }
    const std::int32_t most = asks(g.slots);
    const ask_level<view_type> ask{g, of_all};
    const list_level<view_type, selects_one_range<selector_type>> list{g, tables_.view()};
    const selector_lists lists{g.asks.ranges, g.asks.range_count};
    const auto nodes = [&g](std::int32_t size) {
      return selector_contexts{.size = size,
                               .depth = g.depth,
                               .tokens = g.asks.tokens,
                               .states = g.asks.states,
                               .trees = g.asks.slot};
    };
    if constexpr (!host_reads<Executor> && asks_per_slot == 1 &&
                  requires { selector.choosing(nodes(most), lists); }) {
      launch_in_order(executor, most, before..., ask, selector.choosing(nodes(most), lists), list);
      return most;
    } else {
      launch_in_order(executor, g.slots, before..., ask);
      const std::int32_t asked = known_count(executor, g.asks.count, most);
      if (asked == 0) { return 0; }
      if constexpr (routes) { place_states(g.asks, asked, contexts); }
      selector.select(executor, nodes(asked), lists);
      executor.launch(asked, list);
      return asked;
    }
  }

  /// Drafts the children of the frontier, by the shortlists that were chosen: the model's head over
  /// them, and children of the laws. `end_level` comes next. \param is_last no pass of the model
  /// follows before the drafts are verified.
  template <class Model, class Hidden, class Selecting, class S, class Draw>
  void draft_level(const view_type& g, std::int32_t asked, Model& model, Hidden& hidden,
                   Selecting& selector, const S& sampler, const Draw& draw, bool is_last,
                   Executor& executor) {
    const head_rows<Real> rows{
        .size = asked, .row = g.asks.row, .lists = g.asks.lists, .logits = g.asks.logits};
    model.head(hidden, rows);
    selector.advise(rows);
    if constexpr (ranked) {
      executor.launch(asked, rank_level<view_type, S>{g, sampler});
    } else {
      const std::int32_t nodes = common ? asked * frontier_type::width : asked;
      if (common && frontier_type::width > 1) { executor.launch(nodes, copy_level<view_type>{g}); }
      executor.launch(nodes, draw_level<view_type, S, Draw, lends_for_a_pass<Model>>{
                                 g, sampler, draw, is_last});
    }
  }

  /// Makes nodes of the children; those that are drafted from, if the policy says so, are the new
  /// frontier. Calls next(bodies...) with what is left to launch in front of what comes next.
  /// \param always_greedy whether the sampler is.
  template <class Drafts, class Next>
  static void end_level(const view_type& g, bool always_greedy, Drafts& drafts, Executor& executor,
                        const Next& next) {
    const drafter::end_level<view_type> ended{g, always_greedy};
    if constexpr (!host_reads<Executor>) {
      if (!drafts.is_constrained()) { return next(ended); }
    }
    executor.launch(g.slots, ended);
    drafts.follow(executor);
    next();
  }

  /// Launches `before`, and makes trees of what was grown.
  template <class Drafts, class... Before>
  static void finish(const view_type& g, Drafts& drafts, Executor& executor,
                     const Before&... before) {
    if constexpr (dynamic) {
      launch_in_order(executor, g.slots, before..., finish_dynamic<view_type>{g});
      drafts.follow_anew(executor);
    } else {
      launch_in_order(executor, g.slots, before...);
    }
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

  template <class Contexts>
  static constexpr bool knows_all_rows = requires(Contexts& c) {
    { c.contexts() } -> std::same_as<context_rows>;
  };

  /// What the model knows of the rows of its pass, if it tells of all.
  template <class Contexts>
  static context_rows contexts_of_all(Contexts& contexts) {
    if constexpr (knows_all_rows<Contexts>) {
      return contexts.contexts();
    } else {
      return {};
    }
  }

  /// Finds what the model knows of each row that is asked for, where it tells of one at a time.
  template <class Contexts>
  static void place_states([[maybe_unused]] const level_asks<Real>& asks,
                           [[maybe_unused]] std::int32_t asked,
                           [[maybe_unused]] Contexts& contexts) {
    if constexpr (!knows_all_rows<Contexts>) {
      static_assert(
          requires {
            { contexts.context(0) } -> std::convertible_to<const float*>;
          },
          "hunch: a selector with a router, or selector::any, which may hold one, asks the draft "
          "model for contexts: context_width(), and contexts(rows) before a pass, or contexts() or "
          "context(row) of what forward returns");
      static_assert(host_reads<Executor>,
                    "hunch: where the host does not read the memory of a step, a selector with a "
                    "router asks the draft model for contexts of all rows: contexts(rows) before a "
                    "pass, or contexts() of what forward returns");
      for (std::int32_t i = 0; i < asked; ++i) { asks.states[i] = contexts.context(asks.row[i]); }
    }
  }

  layout_tables<Executor> tables_;
  owned_arrays<Executor> arrays_;
  frontier_type frontier_;
  level_asks<Real> asks_;
  length_slots<Policy, Executor> lengths_;
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/growth.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/in_order.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// What heads read: the target's states at the last kept node of each sequence, which the law of
/// the next root was made of, or streams beside it. Copied when a step is committed, for the
/// target's own are valid until its next pass only. And where they find it in a step: one input for
/// each sequence that drafts, one after the other by slot. A trivially copyable view.
struct head_arrays {
  std::int32_t each = 0;           ///< states of a node
  std::int32_t width = 0;          ///< numbers of a state
  float* states = nullptr;         ///< [max_batch, each, width]
  std::uint8_t* known = nullptr;   ///< [max_batch] whether there are some, not 0
  const float** inputs = nullptr;  ///< [max_batch]
  token* roots = nullptr;          ///< [max_batch]
  std::int32_t* count = nullptr;   ///< [1] of these two

  HUNCH_HOST_DEVICE float* states_of(std::int32_t slot) const {
    return states + std::int64_t{slot} * each * width;
  }
};
template <class Growing>
struct head_places : head_arrays {
  std::int32_t heads = 0;
  Growing g;
};

/// Copies the states of the last kept node of slot `slot`, if its sequence goes on.
struct keep_states {
  head_arrays to;
  draft_outcomes outcomes;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const draft_outcome& outcome = outcomes.of[slot];
    if (outcome.slot == no_slot) { return; }
    const bool keeps = outcomes.states.exist() && outcome.goes_on();
    if (team.rank() == 0) { to.known[slot] = keeps ? 1 : 0; }
    if (!keeps) { return; }
    const std::int64_t row = outcome.last_row;
    for (std::int32_t j = 0; j < to.each; ++j) {
      const float* const from = outcomes.states[row * to.each + j].data;
      float* const copy = to.states_of(slot) + std::int64_t{j} * to.width;
      team.for_each(to.width, [=](std::int64_t i) { copy[i] = from[i]; });
    }
  }
};

/// Decides whether slot `slot` drafts in this step.
template <class Growing>
struct plan_inputs {
  head_places<Growing> to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    to.g.begin(slot);
    const bool may = to.g.contexts[slot].max_depth > 0 && to.known[slot] != 0;
    if (may && to.g.opens(slot)) { to.g.of.add_root(slot, 0); }
  }
};

/// Places the input of slot `slot`, if it drafts.
template <class Growing>
struct place_inputs {
  head_places<Growing> to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    team::list_by_slot(
        team, {.slot = slot, .slots = to.g.slots, .capacity = to.g.slots, .count = to.count},
        [&](std::int32_t i) { return to.g.of.sizes[i]; },
        [&](std::int32_t at, std::int32_t) {
          const draft_context& c = to.g.contexts[slot];
          to.inputs[at] = to.states_of(slot);
          to.roots[at] = c.committed[c.length - 1];
          to.g.of.rows[to.g.of.in_level(slot, 0)] = at * to.heads;
        },
        [&](std::int32_t at) {
          to.inputs[at] = nullptr;
          to.roots[at] = no_token;
        });
  }
};

/// What drafters share that look several tokens ahead from states of the target's last pass: head j
/// knows nothing of the tokens drafted before depth j + 1, so that all nodes at a depth have one
/// law, and a draft costs one pass over the heads.
///
/// A request's first step has no states and drafts nothing. Where children are ranked, what depends
/// on the tokens drafted before (penalties, grammars) is taken for the first node of a depth (of a
/// dynamic tree the most valuable one) and applied to all; drawn children have it each for its own
/// path.
///
/// \tparam States that heads read of a node.
template <std::int32_t States, class Heads, class Tree, LengthPolicy Policy>
class ahead {
  static_assert(TreeShape<Tree>,
                "hunch: the second argument of drafter::heads or drafter::streaming must model "
                "hunch::TreeShape, such as tree::fixed<choices> or tree::dynamic<K, D, N>");
  static_assert(hunch::detail::are_draft_heads<std::remove_reference_t<Heads>>,
                "hunch: the model of drafter::heads or drafter::streaming must model "
                "hunch::DraftHeads: vocab_size(), hidden_size(), heads(), head_order(), "
                "forward(head_inputs) and head(hidden, head_rows)");
  template <class Real, class Executor>
  using growth_type = growth<Tree, Policy, Real, Executor, level_logits::common>;

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr std::int32_t max_depth = Tree::max_depth;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_clock = length::needs_clock<Policy>;
  static constexpr std::int32_t law_rows = growth_type<float, executor::host>::law_rows;

  /// \param name of the drafter, for messages.
  ahead(const char* name, Heads&& model, Policy policy)
      : name_(name), model_(std::forward<Heads>(model)), policy_(policy) {}

  std::remove_reference_t<Heads>& model() { return model_; }

  /// Of each state.
  std::int32_t hidden_size() const { return static_cast<std::int32_t>(model_.hidden_size()); }

  /// What the target knew before each root.
  template <class Real, class Executor>
  struct state {
    state(const ahead&, Executor& executor, const drafter_setup& setup)
        : trees(executor, setup), arrays(executor) {
      made.each = States;
      made.width = setup.hidden_size;
      arrays.give(std::int64_t{setup.max_batch} * made.each * made.width, made.states);
      arrays.give(setup.max_batch, made.known, made.inputs, made.roots);
      arrays.give(1, made.count);
      executor.launch(setup.max_batch, clear_slots{made.known});
    }

    growth_type<Real, Executor> trees;
    owned_arrays<Executor> arrays;
    head_arrays made;
  };

  void check(const drafter_setup& setup) {
    check_model(name_, "the model of heads", model_, setup);
    if (model_.heads() < Tree::max_depth) {
      throw std::invalid_argument(
          message({name_, ": ", model_.heads(), " heads are too few for a tree of depth ",
                   Tree::max_depth}));
    }
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftHeads<std::remove_reference_t<Heads>, typename Drafts::real>,
                  "hunch: the heads must write logits of the target's type");
    auto g = s.trees.view(policy_, slots, contexts, drafts.view());
    using growing_type = decltype(g);
    const head_places<growing_type> places{s.made, static_cast<std::int32_t>(model_.heads()), g};
    launch_in_order(executor, slots, plan_inputs<growing_type>{places},
                    place_inputs<growing_type>{places});
    const std::int32_t levels = std::min(Tree::max_depth, drafts.levels());
    const std::int32_t inputs = known_count(executor, places.count, slots);
    if (inputs == 0 || levels == 0) { return; }
    auto hidden = model_.forward(head_inputs{
        .size = inputs, .hidden = places.inputs, .tokens = places.roots, .states = States});
    std::int32_t asked = s.trees.choose_lists(g, hidden, selector, executor);
    while (asked > 0) {
      const bool is_last = g.depth + 1 == levels;
      s.trees.draft_level(g, asked, model_, hidden, selector, sampler, draw, true, executor);
      s.trees.end_level(g, S::always_greedy, drafts, executor, [&](const auto&... ended) {
        if (is_last) { return s.trees.finish(g, drafts, executor, ended...); }
        ++g.depth;
        asked = s.trees.choose_lists(g, hidden, selector, executor, ended...);
      });
      if (is_last) { return; }
    }
    s.trees.finish(g, drafts, executor);
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E&, Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots, observe_lengths{s.trees.lengths(policy_), outcomes});
      executor.launch(outcomes.slots, keep_states{s.made, outcomes});
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    attempt([&] {
      s.trees.release(slot, executor);
      executor.launch(1, clear_slots{s.made.known + slot});
    });
  }

 private:
  const char* name_;
  Heads model_;
  Policy policy_;
};

}  // namespace hunch::drafter

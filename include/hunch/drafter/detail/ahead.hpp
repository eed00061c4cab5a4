// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/growth.hpp>
#include <hunch/drafter/detail/kept_states.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// Where heads find what they read in a step: one input for each sequence that drafts, one after
/// the other by slot. A trivially copyable view.
struct head_arrays {
  const std::uint8_t* known = nullptr;  ///< [max_batch] whether there are states
  const float* states = nullptr;        ///< [max_batch, stride]
  std::int32_t stride = 0;
  std::int32_t heads = 0;
  std::uint8_t* drafts = nullptr;  ///< [max_batch] out: 1 if so, else 0
  const float** inputs = nullptr;  ///< [max_batch] out
  token* roots = nullptr;          ///< [max_batch] out
  std::int32_t* count = nullptr;   ///< [1] out
};
template <class Growing>
struct head_places : head_arrays {
  Growing g;
};

/// Whether slot `slot` drafts in this step.
template <class Growing>
struct plan_inputs {
  head_places<Growing> to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    to.g.begin(slot);
    const bool may = to.g.contexts[slot].max_depth > 0 && to.known[slot] != 0;
    to.drafts[slot] = may && to.g.opens(slot) ? 1 : 0;
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
        [&](std::int32_t i) { return std::int32_t{to.drafts[i]}; },
        [&](std::int32_t at, std::int32_t) {
          const draft_context& c = to.g.contexts[slot];
          to.inputs[at] = to.states + static_cast<std::int64_t>(slot) * to.stride;
          to.roots[at] = c.committed[c.length - 1];
          to.g.of.add_root(slot, at * to.heads);
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
/// The states are those of the last accepted node, copied when its step is committed. A request's
/// first step has none and drafts nothing. Where children are ranked, what depends on the tokens
/// drafted before (penalties, grammars) is taken for the first node of a depth (of a dynamic tree
/// the most valuable one) and applied to all; drawn children have it each for its own path.
///
/// \tparam States says which states: `name` of the drafter, `each` of a node, the `streams` of the
///         pass that they are, and `of(evaluation, row, j)`, the j-th of a row of the pass.
template <class States, class Heads, class Tree, LengthPolicy Policy>
class ahead {
  template <class Real, class Executor>
  using growth_type = growth<Tree, Policy, Real, Executor, level_logits::common>;

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_clock = length::needs_clock<Policy>;
  static constexpr std::int32_t law_rows = growth_type<float, executor::host>::law_rows;

  explicit ahead(Heads&& model, Policy policy)
      : model_(std::forward<Heads>(model)), policy_(policy) {}

  std::remove_reference_t<Heads>& model() { return model_; }

  /// Of each state.
  std::int32_t hidden_size() const { return static_cast<std::int32_t>(model_.hidden_size()); }

  /// What the target knew before each root.
  template <class Real, class Executor>
  struct state {
    state(Executor& executor, const drafter_setup& setup)
        : trees(executor, setup), kept(executor, setup, max_nodes, States::each), arrays(executor) {
      arrays.give(setup.max_batch, places.inputs, places.roots, places.drafts);
      arrays.give(1, places.count);
      places.known = kept.known();
      places.states = kept.values();
      places.stride = kept.each() * kept.width();
    }

    growth_type<Real, Executor> trees;
    kept_states<Executor> kept;
    owned_arrays<Executor> arrays;
    head_arrays places;
  };

  void check(const drafter_setup& setup) {
    check_model(States::name, "the model of heads", model_, setup);
    if (model_.heads() < Tree::max_depth) {
      throw std::invalid_argument(
          message({States::name, ": ", model_.heads(), " heads are too few for a tree of depth ",
                   Tree::max_depth}));
    }
  }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftHeads<std::remove_reference_t<Heads>, typename Drafts::real>,
                  "hunch: the heads must write logits of the target's type");
    executor.synchronize();  // states of the target's last pass have been copied
    auto g = s.trees.view(policy_, slots, contexts, drafts.view());
    using growing_type = decltype(g);
    head_places<growing_type> places{s.places, g};
    places.heads = static_cast<std::int32_t>(model_.heads());
    executor.launch(slots, plan_inputs<growing_type>{places});
    executor.launch(slots, place_inputs<growing_type>{places});
    const std::int32_t levels = std::min(Tree::max_depth, drafts.levels());
    const std::int32_t inputs = known_count(executor, places.count, slots);
    if (inputs == 0 || levels == 0) { return; }
    auto hidden = model_.forward(head_inputs{
        .size = inputs, .hidden = places.inputs, .tokens = places.roots, .states = States::each});
    for (; g.depth < levels; ++g.depth) {
      const std::int32_t asked = s.trees.choose_lists(g, hidden, selector, executor);
      if (asked == 0) { break; }
      s.trees.draft_level(g, asked, model_, hidden, drafts, selector, sampler, draw, executor);
    }
    s.trees.finish(g, drafts, executor);
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots, observe_lengths{s.trees.lengths(policy_), outcomes});
      if (outcomes.streams < States::streams) { return s.kept.forget(outcomes, executor); }
      s.kept.observe(
          outcomes,
          [&](std::int32_t row, std::int32_t j) { return States::of(evaluation, row, j); },
          executor);
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    attempt([&] {
      s.trees.release(slot, executor);
      s.kept.release(slot, executor);
    });
  }

 private:
  Heads model_;
  Policy policy_;
};

/// Whether heads write logits of a type that targets have.
template <class Heads>
inline constexpr bool are_draft_heads =
    hunch::detail::are_draft_heads<std::remove_reference_t<Heads>>;

}  // namespace hunch::drafter

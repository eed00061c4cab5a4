// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/drafter/detail/check_model.hpp>
#include <hunch/drafter/detail/growth.hpp>
#include <hunch/drafter/detail/kept_states.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

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
        : trees(executor, setup),
          kept(executor, setup, States::each),
          inputs(executor, static_cast<std::size_t>(setup.max_batch)),
          roots(executor, static_cast<std::size_t>(setup.max_batch)),
          input_of(static_cast<std::size_t>(setup.max_batch)) {}

    growth_type<Real, Executor> trees;
    kept_states<Executor> kept;
    typename Executor::template buffer<const float*> inputs;
    typename Executor::template buffer<token> roots;
    std::vector<std::int32_t> input_of;  ///< per slot
  };

  void check(const drafter_setup& setup) {
    check_model(States::name, "the model of heads", model_, setup);
    if (model_.heads() < Tree::max_depth) {
      throw std::invalid_argument(
          message({States::name, ": ", model_.heads(), " heads are too few for a tree of depth ",
                   Tree::max_depth}));
    }
  }

  /// \throws std::invalid_argument if the target's states have another size than the heads read.
  template <class State, class Drafts, VocabSelector Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftHeads<std::remove_reference_t<Heads>, typename Drafts::real>,
                  "hunch: the heads must write logits of the target's type");
    s.kept.wait(States::name);
    const std::int32_t asked = place_inputs(s, slots, contexts);
    if (asked == 0) { return; }
    auto hidden = model_.forward(head_inputs{.size = asked,
                                             .hidden = s.inputs.data(),
                                             .tokens = s.roots.data(),
                                             .states = States::each});
    s.trees.draft_ahead(
        model_, hidden,
        [&](std::int32_t slot) {
          return s.input_of[static_cast<std::size_t>(slot)] * model_.heads();
        },
        policy_, slots, contexts, drafts, selector, sampler, draw, executor);
  }

  template <class State, class E>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation) noexcept {
    s.trees.observe(policy_, outcomes);
    if (outcomes.streams < States::streams) {
      for (std::int32_t k = 0; k < outcomes.size; ++k) { s.kept.release(outcomes.of[k].slot); }
      return;
    }
    s.kept.observe(
        outcomes, [&](std::int32_t row, std::int32_t j) { return States::of(evaluation, row, j); });
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    s.kept.release(slot);
    s.trees.release(policy_, slot);
  }

 private:
  template <class State>
  std::int32_t place_inputs(State& s, std::int32_t slots, const draft_context* contexts) const {
    s.trees.begin(policy_, slots);
    std::int32_t asked = 0;
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      const draft_context& c = contexts[slot];
      if (c.max_depth < 1 || !s.kept.knows(slot) || !s.trees.opens(policy_, slot, c)) { continue; }
      s.inputs.data()[asked] = s.kept.of(slot);
      s.roots.data()[asked] = c.committed[c.length - 1];
      s.input_of[static_cast<std::size_t>(slot)] = asked++;
      s.trees.add_root(slot, 0);
    }
    return asked;
  }

  Heads model_;
  Policy policy_;
};

/// Whether heads write logits of a type that targets have.
template <class Heads>
inline constexpr bool are_draft_heads = DraftHeads<std::remove_reference_t<Heads>> ||
                                        DraftHeads<std::remove_reference_t<Heads>, double>;

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/concepts.hpp>
#include <hunch/drafter/check_model.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/growth.hpp>
#include <hunch/drafter/kept_states.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::drafter {

/// Heads that draft several tokens ahead from one hidden state of the target (Medusa: Cai et al.
/// 2024, arXiv:2401.10774). Head j knows nothing of the tokens before depth j + 1, so that all
/// nodes at a depth have one law, and the draft costs one pass over the heads.
///
/// The hidden state is the one that the target made the law of the root from; it is copied when a
/// step is committed. A request's first step has none and drafts nothing. Where children are
/// ranked, what depends on the tokens drafted before (penalties, grammars) is taken for the first
/// node of a depth (of a dynamic tree the most valuable one) and applied to all; drawn children
/// have it each for its own path.
///
/// \tparam Heads models `DraftHeads`; a reference where the caller keeps them.
/// \tparam Tree a `TreeShape` that is no deeper than there are heads.
/// \tparam Policy decides how deep a draft is.
template <class Heads, class Tree, LengthPolicy Policy = length::fixed>
class heads {
  static_assert(TreeShape<Tree>,
                "hunch: the second argument of drafter::heads must model hunch::TreeShape, such as "
                "tree::chain<N>, tree::sampled<W...> or tree::dynamic<K, D, N>");
  static_assert(DraftHeads<std::remove_reference_t<Heads>> ||
                    DraftHeads<std::remove_reference_t<Heads>, double>,
                "hunch: the model of drafter::heads must model hunch::DraftHeads: vocab_size(), "
                "hidden_size(), heads(), head_fingerprint(), forward(head_inputs) and "
                "head(hidden, head_rows)");
  template <class Real, class Executor>
  using growth_type = growth<Tree, Policy, Real, Executor, level_logits::common>;

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = true;
  static constexpr std::int32_t law_rows = growth_type<float, executor::host>::law_rows;

  explicit heads(Heads&& model, Tree = {}, Policy policy = {})
      : model_(std::forward<Heads>(model)), policy_(policy) {}

  std::remove_reference_t<Heads>& model() { return model_; }

  /// Of the target's hidden states.
  std::int32_t hidden_size() const { return static_cast<std::int32_t>(model_.hidden_size()); }

  /// What the target knew before each root.
  template <class Real, class Executor>
  struct state {
    state(Executor& executor, const drafter_setup& setup)
        : trees(executor, setup),
          hidden(executor, setup, 1),
          inputs(executor, static_cast<std::size_t>(setup.max_batch)),
          roots(executor, static_cast<std::size_t>(setup.max_batch)),
          input_of(static_cast<std::size_t>(setup.max_batch)) {}

    growth_type<Real, Executor> trees;
    kept_states<Executor> hidden;
    typename Executor::template buffer<const float*> inputs;
    typename Executor::template buffer<token> roots;
    std::vector<std::int32_t> input_of;  ///< per sequence of the step
  };

  void check(const drafter_setup& setup) {
    check_model("hunch::drafter::heads", "the model of heads", model_, setup);
    if (model_.heads() < Tree::max_depth) {
      throw std::invalid_argument("hunch::drafter::heads: " + std::to_string(model_.heads()) +
                                  " heads are too few for a tree of depth " +
                                  std::to_string(Tree::max_depth));
    }
  }

  /// \throws std::invalid_argument if the target's hidden states have another size than the heads
  ///         read.
  template <class State, class Drafts, VocabSelector Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t size, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(DraftHeads<std::remove_reference_t<Heads>, typename Drafts::real>,
                  "hunch: the heads must write logits of the target's type");
    s.hidden.wait("hunch::drafter::heads");
    const std::int32_t asked = place_inputs(s, size, contexts);
    if (asked == 0) { return; }
    auto hidden = model_.forward(head_inputs{asked, s.inputs.data(), s.roots.data()});
    s.trees.draft_ahead(
        model_, hidden,
        [&](std::int32_t k) { return s.input_of[static_cast<std::size_t>(k)] * model_.heads(); },
        policy_, size, contexts, drafts, selector, sampler, draw, executor);
  }

  template <class State, class E>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation) noexcept {
    s.trees.observe(policy_, outcomes);
    s.hidden.observe(outcomes,
                     [&](std::int32_t row, std::int32_t) { return evaluation.hidden(row); });
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    s.hidden.release(slot);
    s.trees.release(slot);
  }

 private:
  template <class State>
  std::int32_t place_inputs(State& s, std::int32_t size, const draft_context* contexts) const {
    s.trees.begin(policy_, size, contexts);
    std::int32_t asked = 0;
    for (std::int32_t k = 0; k < size; ++k) {
      const draft_context& c = contexts[k];
      if (c.max_depth < 1 || !s.hidden.knows(c.slot) || !s.trees.opens(policy_, k, c)) { continue; }
      s.inputs.data()[asked] = s.hidden.of(c.slot);
      s.roots.data()[asked] = c.committed[c.length - 1];
      s.input_of[static_cast<std::size_t>(k)] = asked++;
      s.trees.add_root(k, 0);
    }
    return asked;
  }

  Heads model_;
  Policy policy_;
};

template <class Heads, class Tree>
heads(Heads&&, Tree) -> heads<Heads, Tree>;
template <class Heads, class Tree, class Policy>
heads(Heads&&, Tree, Policy) -> heads<Heads, Tree, Policy>;

}  // namespace hunch::drafter

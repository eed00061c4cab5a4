// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

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

/// The target drafts for itself: beside every node of its pass run speculative streams, and those
/// of the last accepted node are the next draft. Verification and draft are one pass. (Speculative
/// Streaming: Bhendawade et al. 2024, arXiv:2402.11131)
///
/// Stream j drafts depth j + 1 and knows nothing of the tokens before it, so that all nodes at a
/// depth have one law; the head is applied to the streams of one node of each sequence, over the
/// selector's shortlist. A request's first step has no streams and drafts nothing.
///
/// Lossless with every lossless verifier, against the model whose logits the pass returns: the
/// target as it was, if its streams leave its rows alone.
///
/// \tparam Head models `StreamHead`; a reference where the caller keeps it.
/// \tparam Tree a `TreeShape`: the streams that are asked for are as many as it is deep.
/// \tparam Policy decides how deep a draft is.
template <class Head, class Tree, LengthPolicy Policy = length::fixed>
class streaming {
  static_assert(TreeShape<Tree>,
                "hunch: the second argument of drafter::streaming must model hunch::TreeShape, "
                "such as tree::fixed<choices> or tree::dynamic<K, D, N>");
  static_assert(StreamHead<std::remove_reference_t<Head>> ||
                    StreamHead<std::remove_reference_t<Head>, double>,
                "hunch: the head of drafter::streaming must model hunch::StreamHead: vocab_size(), "
                "hidden_size(), streams(), head_fingerprint() and head(stream_states, head_rows)");
  template <class Real, class Executor>
  using growth_type = growth<Tree, Policy, Real, Executor, level_logits::common>;

 public:
  static constexpr std::int32_t max_nodes = Tree::max_nodes;
  static constexpr child_law children = Tree::children;
  static constexpr bool is_chain = Tree::is_chain;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;
  static constexpr std::int32_t streams = Tree::max_depth;
  static constexpr std::int32_t law_rows = growth_type<float, executor::host>::law_rows;

  explicit streaming(Head&& head, Tree = {}, Policy policy = {})
      : head_(std::forward<Head>(head)), policy_(policy) {}

  std::remove_reference_t<Head>& head() { return head_; }

  /// Of the states of streams.
  std::int32_t hidden_size() const { return static_cast<std::int32_t>(head_.hidden_size()); }

  /// The streams beside the last accepted node of each sequence.
  template <class Real, class Executor>
  struct state {
    state(Executor& executor, const drafter_setup& setup)
        : trees(executor, setup), kept(executor, setup, streams) {}

    growth_type<Real, Executor> trees;
    kept_states<Executor> kept;
  };

  void check(const drafter_setup& setup) {
    check_model("hunch::drafter::streaming", "the head of the streams", head_, setup);
    if (head_.streams() < streams) {
      throw std::invalid_argument("hunch::drafter::streaming: " + std::to_string(head_.streams()) +
                                  " streams are too few for a tree of depth " +
                                  std::to_string(streams));
    }
  }

  /// \throws std::invalid_argument if the streams have another size than the head reads.
  template <class State, class Drafts, VocabSelector Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t size, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) {
    static_assert(StreamHead<std::remove_reference_t<Head>, typename Drafts::real>,
                  "hunch: the head must write logits of the target's type");
    s.kept.wait("hunch::drafter::streaming");
    s.trees.begin(policy_, size, contexts);
    for (std::int32_t k = 0; k < size; ++k) {
      const draft_context& c = contexts[k];
      if (c.max_depth < 1 || !s.kept.knows(c.slot) || !s.trees.opens(policy_, k, c)) { continue; }
      s.trees.add_root(k, 0);
    }
    stream_states states{s.kept.of(0), s.kept.width()};
    s.trees.draft_ahead(
        head_, states, [contexts](std::int32_t k) { return contexts[k].slot * streams; }, policy_,
        size, contexts, drafts, selector, sampler, draw, executor);
  }

  template <class State, class E>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation) noexcept {
    s.trees.observe(policy_, outcomes);
    s.kept.observe(outcomes,
                   [&](std::int32_t row, std::int32_t j) { return evaluation.stream(row, j); });
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    s.kept.release(slot);
    s.trees.release(slot);
  }

 private:
  Head head_;
  Policy policy_;
};

template <class Head, class Tree>
streaming(Head&&, Tree) -> streaming<Head, Tree>;
template <class Head, class Tree, class Policy>
streaming(Head&&, Tree, Policy) -> streaming<Head, Tree, Policy>;

}  // namespace hunch::drafter

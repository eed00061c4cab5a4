// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/members.hpp>
#include <hunch/drafter/detail/merging.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::drafter {

/// How many nodes the trees of an ensemble have at most, with the root.
template <std::int32_t N>
struct nodes {};

/// Several drafters in one tree: what a text repeats and what a model expects, say. One after the
/// other they grow trees of their own; of nodes with the same tokens on their paths one is left,
/// and the target verifies what any of them has drafted. Where there is no room for all, the
/// drafters that are named first have theirs, and of a later one its first nodes, which of
/// `tree::dynamic` are its most valuable ones. (Token trees of several draft models, merged:
/// SpecInfer, Miao et al. 2023, arXiv:2305.09781; here of any drafters)
///
/// Each drafter observes what it has drafted itself of the accepted path, and reads the rest as
/// text. Its states, models and length policy are its own; the selector is the decoder's.
///
/// The tree is ranked, however children come about: what is merged, or has no room, is not drawn
/// from any law any more. So it is lossless with every lossless verifier that needs no draft law,
/// such as `point_mass`, `greedy` and `coupled`, and does not compile with others. Under `coupled`
/// a drafter that draws still does so with the target's noise. A token outside of the vocabulary
/// ends the tree of the drafter that proposed it, and of the first such drafter the request.
/// Launches one body more for each drafter, and one in `observe`; waits where its drafters do, and
/// once for each while a text follows a grammar.
///
/// \tparam Nodes of a merged tree at most, with the root.
/// \tparam D `Drafter`s; references where the caller keeps them. One at most draws its children,
///         for their random addresses are the same.
template <std::int32_t Nodes, class... D>
class ensemble {
  using all = members<D...>;
  static_assert(Nodes >= 2,
                "hunch: drafter::nodes<N> are the root and what is drafted after it: N >= 2");
  static_assert(all::drawing <= 1,
                "hunch: two drafters of drafter::ensemble draw their children, at the same random "
                "addresses: use tree::fixed or tree::dynamic for all but one");

 public:
  static constexpr std::int32_t max_nodes = std::max(Nodes, all::max_nodes);
  static constexpr std::int32_t max_depth = all::max_depth;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = false;
  static constexpr bool uses_selector = all::use_selector;
  static constexpr bool needs_hidden = all::need_hidden;
  static constexpr bool needs_clock = all::need_clock;
  static constexpr bool reads_own_draft = true;
  static constexpr std::int32_t streams = all::streams;
  static constexpr std::int32_t law_rows = all::law_rows;

  /// With room for the trees of all.
  explicit ensemble(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}
  /// With room for so many nodes.
  explicit ensemble(drafter::nodes<Nodes>, D&&... drafters)
      : drafters_(std::forward<D>(drafters)...) {}

  /// Of the states that are read.
  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    return drafters_.hidden_size();
  }

  template <class Real, class Executor>
  struct state : all::template states<Real, Executor> {
    state(const ensemble& of, Executor& executor, const drafter_setup& setup)
        : all::template states<Real, Executor>(of.drafters_, executor, setup), arrays(executor) {
      merged.max_nodes = max_nodes;
      merged.room = Nodes;
      merged.max_batch = setup.max_batch;
      merged.allocate(arrays, all::count);
      const std::int64_t shared = std::int64_t{all::count} * setup.max_batch;
      arrays.give(shared, shares);
      arrays.give(shared * max_nodes, paths);
    }

    owned_arrays<Executor> arrays;
    merged_trees merged;
    draft_outcome* shares = nullptr;  ///< [drafters, max_batch]
    std::int32_t* paths = nullptr;    ///< [drafters, max_batch, max_nodes]
  };

  /// \throws std::invalid_argument as its drafters do, or if they read states of two sizes.
  void check(const drafter_setup& setup) { drafters_.check(setup); }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    std::int32_t member = 0;
    drafters_.for_each(s, [&](auto& drafter, auto& state) {
      drafter.propose(state, slots, contexts, drafts, selector, sampler, draw, executor);
      if (drafts.levels() == 0) { return; }
      executor.launch(slots,
                      merge_drafts<typename Drafts::real>{
                          .merged = s.merged,
                          .trees = drafts.view(),
                          .member = member++,
                          .members = all::count,
                          .has_lists = std::remove_cvref_t<decltype(drafter)>::uses_selector});
      drafts.follow_anew(executor);
    });
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots,
                      share_outcomes{s.merged, all::count, outcomes, s.shares, s.paths});
      // Only then: else the shares would be those of the step before.
      draft_outcomes share = outcomes;
      share.of = s.shares;
      drafters_.for_each(s, [&](auto& drafter, auto& state) {
        drafter.observe(state, share, evaluation, executor);
        share.of += s.merged.max_batch;
      });
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    drafters_.for_each(s,
                       [&](auto& drafter, auto& state) { drafter.release(state, slot, executor); });
  }

 private:
  all drafters_;
};

template <std::int32_t N, class... D>
ensemble(nodes<N>, D&&...) -> ensemble<N, D...>;
template <class... D>
ensemble(D&&...) -> ensemble<(1 + ... + (std::remove_reference_t<D>::max_nodes - 1)), D...>;

}  // namespace hunch::drafter

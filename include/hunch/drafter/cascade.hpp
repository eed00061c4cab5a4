// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/members.hpp>
#include <hunch/drafter/detail/turns.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::drafter {

/// Drafters that are asked one after the other, until one has a draft: what is cheap first, such as
/// a lookup in the text, and a model where that finds nothing. Which of them drafts is decided for
/// each sequence before anything is drawn, and a draft is one drafter's alone. So the target has no
/// more rows to verify than after one drafter, and where the first one drafts the others take no
/// time; `drafter::ensemble` verifies what all of them draft.
///
/// Each drafter observes what became of its own drafts, and reads the rest as text: a model with a
/// cache reads a prompt when the target does, and what it has missed since when it drafts again.
/// Its states, models and length policy are its own; the selector is the decoder's. Length policies
/// of copies are told that these are `contested`, but for the last drafter's.
///
/// Children come about as those of all its drafters do. One that is certain of its drafts, as
/// `lookup` is, goes with any: beside drafters that draw, its tokens have laws that are point
/// masses, and every lossless verifier that takes the others' trees is exact. Of drafters that
/// differ otherwise trees are ranked: for `point_mass`, `greedy` and `coupled`. Launches one body
/// more for each drafter but the last, and one in `observe`; waits where its drafters do.
///
/// \tparam D `Drafter`s; references where the caller keeps them.
template <class... D>
class cascade {
  using all = members<D...>;

 public:
  static constexpr std::int32_t max_nodes = all::max_nodes;
  static constexpr std::int32_t max_depth = all::max_depth;
  static constexpr child_law children = all::children;
  static constexpr bool is_chain = all::are_chains;
  static constexpr bool uses_selector = all::use_selector;
  static constexpr bool needs_hidden = all::need_hidden;
  static constexpr bool needs_clock = all::need_clock;
  static constexpr bool reads_own_draft = all::read_own_draft;
  static constexpr std::int32_t streams = all::streams;
  static constexpr std::int32_t law_rows = all::law_rows;

  explicit cascade(D&&... drafters) : drafters_(std::forward<D>(drafters)...) {}

  /// Of the states that are read.
  std::int32_t hidden_size() const requires(needs_hidden || streams > 0) {
    return drafters_.hidden_size();
  }

  template <class Real, class Executor>
  struct state : all::template states<Real, Executor> {
    state(const cascade& of, Executor& executor, const drafter_setup& setup)
        : all::template states<Real, Executor>(of.drafters_, executor, setup, true),
          owned(executor) {
      turns.max_batch = setup.max_batch;
      owned.give(setup.max_batch, turns.by, turns.contexts);
      owned.give(std::int64_t{all::count} * setup.max_batch, turns.shares);
    }

    owned_arrays<Executor> owned;
    turn_arrays turns;
  };

  /// \throws std::invalid_argument as its drafters do, or if they read states of two sizes.
  void check(const drafter_setup& setup) { drafters_.check(setup); }

  template <class State, class Drafts, class Selecting, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selecting& selector, const S& sampler, const Draw& draw, Executor& executor) {
    std::int32_t member = 0;
    const draft_context* asked = contexts;
    drafters_.for_each(s, [&](auto& drafter, auto& state) {
      drafter.propose(state, slots, asked, drafts, selector, sampler, draw, executor);
      if (member + 1 == all::count) { return; }
      executor.launch(slots,
                      pass_on<typename Drafts::real>{s.turns, drafts.view(), contexts, member++});
      asked = s.turns.contexts;
    });
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E& evaluation,
               Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots, tell_drafters{s.turns, all::count, outcomes});
      // Only then: else the shares would be those of the step before.
      draft_outcomes share = outcomes;
      share.of = s.turns.shares;
      drafters_.for_each(s, [&](auto& drafter, auto& state) {
        drafter.observe(state, share, evaluation, executor);
        share.of += s.turns.max_batch;
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

template <class... D>
cascade(D&&...) -> cascade<D...>;

}  // namespace hunch::drafter

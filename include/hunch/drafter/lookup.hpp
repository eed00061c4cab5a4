// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <hunch/core/logit.hpp>
#include <hunch/core/message.hpp>
#include <hunch/draft/find_match.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::drafter {

/// Grows the tree of slot `slot` by what followed the longest tail of its text that occurs
/// earlier.
template <class Real, std::int32_t Length, std::int32_t Longest, LengthPolicy Policy>
struct copy_match {
  const draft_context* contexts;  ///< [slots]
  draft_trees<Real> trees;
  slot_lengths<Policy> lengths;
  std::int32_t shortest;
  bool contested;
  const std::int32_t* identity;  ///< [vocab_size] each token; nullptr: trees have no laws
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const draft_context c = contexts[slot];
    const std::int32_t most = c.max_depth < Length ? c.max_depth : Length;
    std::int32_t wanted = 0;
    if (team.rank() == 0) { wanted = lengths.begin(slot, most); }
    wanted = team.broadcast(wanted, 0);
    const std::int32_t matched =
        kernel::propose_match<Longest>(team, {.text = c.committed,
                                              .length = c.length,
                                              .shortest = shortest,
                                              .wanted = wanted,
                                              .proposed = trees.tree(slot).tokens + 1});
    if (team.rank() != 0 || matched == 0) { return; }
    length_evidence evidence;
    evidence.probability = static_cast<double>(matched) / Longest;
    evidence.ahead = true;
    evidence.contested = contested;
    for (bool more = true; more;) {
      const std::int32_t parent = lengths.levels(slot);
      evidence.reach *= evidence.probability;
      evidence.rows = parent + 1;
      if (!lengths.continues(slot, evidence)) { break; }
      trees.add(slot, parent + 1, parent);
      if (identity != nullptr) { be_certain(slot, parent); }
      more = lengths.drew(slot);
    }
    if (lengths.levels(slot) > 0) { trees.computed[slot] = 0; }
  }

 private:
  /// Gives the child of a node the law of a point mass: over a list of one row, where rows are the
  /// tokens of the vocabulary. All of them share a logit.
  HUNCH_HOST_DEVICE void be_certain(std::int32_t slot, std::int32_t parent) const {
    const draft_tree<Real> tree = trees.tree(slot);
    const token t = tree.tokens[parent + 1];
    row_range* const range = trees.ranges(slot, parent);
    *range = {t, t + 1};
    tree.lists[parent] = {.ranges = range,
                          .range_count = 1,
                          .size = 1,
                          .row_token = identity,
                          .token_row = identity,
                          .vocab_size = trees.capacity.vocab_size};
    Real* const logit = trees.logits(slot, 0);
    *logit = to_logit<Real>(0);
    law<Real> certain;
    certain.logits = {logit, 1};
    certain.norm = 1;
    certain.threshold = 0;
    certain.last_kept = 0;
    tree.laws[parent] = certain;
    tree.drawn_at[parent + 1] = 0;
  }
};

/// Prompt lookup: the longest tail of the text, prompt and emitted tokens, that occurs earlier in
/// it, and what followed there the last time. It needs no model and no head and has no law, so it
/// goes with verifiers that need none, such as `point_mass` and `greedy`: lossless with those that
/// are. (Saxena 2023, prompt lookup decoding; Yang et al. 2023, arXiv:2304.04487)
///
/// All that it needs of a sequence is its text: nothing is lost when a request is ended and added
/// again. A text without a repetition drafts nothing. One body searches it, once per step.
///
/// What is not drawn has no probability; a length policy is told the share of `Longest` that the
/// tail has that occurs, before each token, the first one too, and learns what that is worth.
///
/// \tparam Length tokens of a draft at most.
/// \tparam Longest tokens of the tail that is looked for at most.
/// \tparam Policy decides how long a draft is.
template <std::int32_t Length, std::int32_t Longest = 4, LengthPolicy Policy = length::fixed>
struct lookup {
  static_assert(Length >= 1 && Length <= 63,
                "hunch: drafter::lookup<N> drafts N tokens, 1 <= N <= 63; for plain decoding use "
                "drafter::none");
  // The tail is in registers.
  static_assert(Longest >= 1 && Longest <= 16,
                "hunch: drafter::lookup<N, Longest> looks for a tail of at most Longest tokens, "
                "1 <= Longest <= 16");

  static constexpr std::int32_t max_nodes = Length + 1;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = true;
  static constexpr bool is_certain = true;
  static constexpr bool uses_selector = false;
  static constexpr bool needs_hidden = false;
  static constexpr bool needs_clock = length::needs_clock<Policy>;

  std::int32_t shortest = 1;  ///< tokens of the tail that must occur, in [1, Longest]
  Policy policy{};

  template <class Real, class Executor>
  struct state {
    state(const lookup&, Executor& executor, const drafter_setup& setup)
        : lengths(executor, setup.max_batch),
          contested(setup.contested),
          identity(executor, static_cast<std::size_t>(setup.has_laws ? setup.vocab_size : 0)) {
      if (!setup.has_laws) { return; }
      std::vector<std::int32_t> tokens(identity.size());
      std::iota(tokens.begin(), tokens.end(), 0);
      write_buffer(executor, identity.data(), tokens.data(), tokens.size());
    }

    length_slots<Policy, Executor> lengths;
    bool contested;
    typename Executor::template buffer<std::int32_t> identity;
  };

  void check(const drafter_setup&) const {
    if (shortest < 1 || shortest > Longest) {
      throw std::invalid_argument(message({"hunch::drafter::lookup: a shortest tail of ", shortest,
                                           " tokens, the longest has ", Longest}));
    }
  }

  template <class State, class Drafts, class Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector&, const S&, const Draw&, Executor& executor) const {
    using real = typename Drafts::real;
    const std::int32_t* const identity = s.identity.size() > 0 ? s.identity.data() : nullptr;
    executor.launch(slots, copy_match<real, Length, Longest, Policy>{
                               contexts, drafts.view(), s.lengths.with(policy), shortest,
                               s.contested, identity});
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E&, Executor& executor) noexcept {
    attempt([&] {
      executor.launch(outcomes.slots, observe_lengths{s.lengths.with(policy), outcomes});
    });
  }

  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor& executor) noexcept {
    attempt([&] { s.lengths.release(slot, executor); });
  }
};

static_assert(Drafter<lookup<1>>);

}  // namespace hunch::drafter

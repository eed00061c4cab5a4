// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/kernel/find_match.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>

namespace hunch::drafter {

/// Prompt lookup: the longest tail of the text, prompt and emitted tokens, that occurs earlier in
/// it, and what followed there the last time. It needs no model and no head and has no law, so it
/// goes with `verifier::point_mass` or `verifier::greedy`. (Saxena 2023, prompt lookup decoding;
/// Yang et al. 2023, arXiv:2304.04487)
///
/// All that it needs of a sequence is its text: nothing is lost when a request is ended and added
/// again. A text without a repetition drafts nothing. The text is in the host's memory and is
/// searched there, on the calling thread, at most once per step.
///
/// What is not drawn has no probability; a length policy is told the share of `Longest` that the
/// tail has that occurs, and learns what that is worth.
///
/// \tparam Length tokens of a draft at most.
/// \tparam Longest tokens of the tail that is looked for at most.
/// \tparam Policy decides how long a draft is.
template <std::int32_t Length, std::int32_t Longest = 4, LengthPolicy Policy = length::fixed>
struct lookup {
  static_assert(Length >= 1 && Length <= 63,
                "hunch: drafter::lookup<N> drafts N tokens, 1 <= N <= 63; for plain decoding use "
                "drafter::none");

  static constexpr std::int32_t max_nodes = Length + 1;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = true;
  static constexpr bool uses_selector = false;
  static constexpr bool needs_hidden = false;

  std::int32_t shortest = 1;  ///< tokens of the tail that must occur, in [1, Longest]
  Policy policy{};

  template <class Real, class Executor>
  struct state {
    state(Executor&, const drafter_setup& setup)
        : tasks(static_cast<std::size_t>(setup.max_batch)),
          drafts(static_cast<std::size_t>(setup.max_batch)),
          memories(static_cast<std::size_t>(setup.max_batch)) {}

    /// Of one sequence in this step.
    struct draft {
      bool begun = false;        ///< the policy was asked for a length
      std::int32_t matched = 0;  ///< tokens of the tail
      std::int32_t levels = 0;
    };

    std::vector<kernel::match_task> tasks;
    std::vector<draft> drafts;
    std::vector<typename Policy::memory> memories;  ///< per slot
  };

  void check(const drafter_setup&) const {
    if (shortest < 1 || shortest > Longest) {
      throw std::invalid_argument("hunch::drafter::lookup: a shortest tail of " +
                                  std::to_string(shortest) + " tokens, the longest has " +
                                  std::to_string(Longest));
    }
  }

  template <class State, class Drafts, class... Rest>
  void propose(State& s, std::int32_t size, const draft_context* contexts, Drafts& drafts,
               Rest&&...) const {
    for (std::int32_t k = 0; k < size; ++k) {
      const draft_context& c = contexts[k];
      auto& draft = s.drafts[static_cast<std::size_t>(k)];
      draft = {c.max_depth > 0, 0, 0};
      const std::int32_t wanted =
          draft.begun ? policy.begin(memory_of(s, c.slot), std::min(c.max_depth, Length)) : 0;
      s.tasks[static_cast<std::size_t>(k)] = {
          c.committed, c.length, shortest, wanted, drafts.tree(k).tokens + 1, &draft.matched};
    }
    executor::host{}.launch(size, kernel::find_match<Longest>{s.tasks.data()});
    for (std::int32_t k = 0; k < size; ++k) {
      auto& draft = s.drafts[static_cast<std::size_t>(k)];
      const std::int32_t wanted =
          draft.matched > 0 ? s.tasks[static_cast<std::size_t>(k)].wanted : 0;
      const double sure = static_cast<double>(draft.matched) / Longest;
      length_evidence evidence{0, sure, 1.0, 0.0, 1};
      bool more = wanted > 0;
      while (more) {
        ++draft.levels;
        drafts.grow(k, contexts[k], draft.levels, draft.levels - 1);
        evidence.depth = draft.levels;
        evidence.reach *= sure;
        evidence.rows = 1 + draft.levels;
        more = draft.levels < wanted && policy.goes_on(memory_of(s, contexts[k].slot), evidence);
      }
    }
  }

  template <class State, class E>
  void observe(State& s, const draft_outcomes& outcomes, E&) noexcept {
    for (std::int32_t k = 0; k < outcomes.size; ++k) {
      const draft_outcome& outcome = outcomes.of[k];
      const auto& draft = s.drafts[static_cast<std::size_t>(k)];
      if (outcome.finished) {
        release(s, outcome.slot);
      } else if (draft.begun && !outcome.failed) {
        policy.observe(memory_of(s, outcome.slot), draft.levels, outcome.kept);
      }
    }
  }

  template <class State>
  void release(State& s, std::int32_t slot) noexcept {
    memory_of(s, slot) = {};
  }

 private:
  template <class State>
  static typename Policy::memory& memory_of(State& s, std::int32_t slot) {
    return s.memories[static_cast<std::size_t>(slot)];
  }
};

static_assert(Drafter<lookup<1>>);

}  // namespace hunch::drafter

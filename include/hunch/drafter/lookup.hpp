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

namespace hunch::drafter {

/// Prompt lookup: the longest tail of the text, prompt and emitted tokens, that occurs earlier in
/// it, and what followed there the last time. It needs no model and no head and has no law, so it
/// goes with `verifier::point_mass` or `verifier::greedy`. (Saxena 2023, prompt lookup decoding;
/// Yang et al. 2023, arXiv:2304.04487)
///
/// All that it knows of a sequence is its text: nothing is lost when a request is ended and added
/// again. A text without a repetition drafts nothing. The text is in the host's memory and is
/// searched there, on the calling thread, at most once per step.
///
/// \tparam Length tokens of a draft at most.
/// \tparam Longest tokens of the tail that is looked for at most.
template <std::int32_t Length, std::int32_t Longest = 4>
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

  template <class Real, class Executor>
  struct state {
    state(Executor&, const drafter_setup& setup)
        : tasks(static_cast<std::size_t>(setup.max_batch)),
          counts(static_cast<std::size_t>(setup.max_batch)) {}

    std::vector<kernel::match_task> tasks;
    std::vector<std::int32_t> counts;  ///< tokens that were proposed
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
      const auto at = static_cast<std::size_t>(k);
      s.tasks[at] = {c.committed,
                     c.length,
                     shortest,
                     std::min(c.max_depth, Length),
                     drafts.tree(k).tokens + 1,
                     &s.counts[at]};
    }
    executor::host{}.launch(size, kernel::find_match<Longest>{s.tasks.data()});
    for (std::int32_t k = 0; k < size; ++k) {
      for (std::int32_t node = 1; node <= s.counts[static_cast<std::size_t>(k)]; ++node) {
        drafts.grow(k, contexts[k], node, node - 1);
      }
    }
  }

  template <class State, class E>
  void observe(State&, const draft_outcomes&, E&) noexcept {}

  template <class State>
  void release(State&, std::int32_t) noexcept {}
};

static_assert(Drafter<lookup<1>>);

}  // namespace hunch::drafter

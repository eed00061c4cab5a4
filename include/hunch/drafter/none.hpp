// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/drafter/drafter.hpp>

namespace hunch::drafter {

/// Drafts nothing: plain decoding, by the same loop, laws and random addresses. The reference that
/// everything else is compared with.
struct none {
  static constexpr std::int32_t max_nodes = 1;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = true;
  static constexpr bool uses_selector = false;
  static constexpr bool needs_hidden = false;

  template <class Real, class Executor>
  struct state {
    state(const none&, Executor&, const drafter_setup&) {}
  };

  void check(const drafter_setup&) const {}

  template <class State, class... Rest>
  void propose(State&, std::int32_t, const draft_context*, Rest&&...) {}

  template <class State, class E, class Executor>
  void observe(State&, const draft_outcomes&, E&, Executor&) noexcept {}

  template <class State, class Executor>
  void release(State&, std::int32_t, Executor&) noexcept {}
};

static_assert(Drafter<none>);

}  // namespace hunch::drafter

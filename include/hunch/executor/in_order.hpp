// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Bodies of which each reads what those before it have written.

namespace hunch {
namespace kernel {

/// Bodies one after the other, by one team: the first of each, of which there is no second.
template <class First, class... Rest>
struct in_order {
  First first;
  in_order<Rest...> rest;

  HUNCH_HOST_DEVICE explicit in_order(const First& f, const Rest&... r) : first(f), rest(r...) {}

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    first(team, index);
    team.sync();
    rest(team, index);
  }

  /// Of those that say what they are about to read the last one, whose view has those of the
  /// others.
  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t index) const
      requires(team::AsksNearby<First, T> || team::AsksNearby<in_order<Rest...>, T>) {
    if constexpr (team::AsksNearby<in_order<Rest...>, T>) {
      rest.ask_nearby(team, index);
    } else {
      first.ask_nearby(team, index);
    }
  }
};

template <class Last>
struct in_order<Last> : Last {
  HUNCH_HOST_DEVICE explicit in_order(const Last& of) : Last(of) {}
};

}  // namespace kernel

/// Launches `count` of each body, those of one after those of the other. Where there is one of
/// each, a single launch is enough: a device takes as long for a launch as for such a body. Where
/// the host reads what a step makes, launches are calls.
template <Executor E, class... Bodies>
void launch_in_order(E& executor, std::int32_t count, const Bodies&... bodies) {
  if constexpr (!host_reads<E> && sizeof...(Bodies) > 1) {
    if (count == 1) {
      executor.launch(1, kernel::in_order<Bodies...>(bodies...));
      return;
    }
  }
  (executor.launch(count, bodies), ...);
}

}  // namespace hunch

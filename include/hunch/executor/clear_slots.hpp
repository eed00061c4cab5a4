// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// Makes what is kept for slot `slot` what it begins as: memory of an executor need not begin as
/// anything. From another address on, that of another slot.
template <class State>
struct clear_slots {
  State* of;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() == 0) { of[slot] = {}; }
  }
};
template <class State>
clear_slots(State*) -> clear_slots<State>;

}  // namespace hunch

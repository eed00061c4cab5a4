// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/team.hpp>

/// \file
/// How a step is repeated by the executor. A loop has a number, and host and loop tell each other
/// numbers: what is said to one loop is never taken for the next one.

namespace hunch::kernel {

/// What host and loop tell each other. Both sides reach it.
struct loop_signals {
  std::int64_t stop = 0;   ///< by the host: loops up to this one are to end
  std::int64_t ended = 0;  ///< by the loop: loops up to this one have ended
};

/// What a loop knows of itself.
struct loop_state {
  std::int64_t number = 0;
  std::int64_t steps_left = 0;
};

/// Begins a loop: slot `slot` takes the request that waits for it.
struct begin_run {
  inbox_view in;
  loop_state* loop;
  std::int64_t number;
  std::int64_t max_steps;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() == 0 && slot == 0) { *loop = {.number = number, .steps_left = max_steps}; }
    take_arrivals{in}(team, slot);
  }
};

/// Looks at what the host has said, and decides whether the loop takes another step.
struct decide_repeat {
  inbox_view in;
  std::int32_t slots;  ///< that the step goes over
  rings out;
  loop_signals* shared;
  loop_state* loop;
  std::int32_t* again;           ///< out
  std::int32_t max_new_entries;  ///< entries that a step may write to a ring

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const bool first = look(team);
    team.sync();
    if (team.rank() == 0) {
      --loop->steps_left;
      *again = first && loop->steps_left > 0 ? 1 : 0;
      // The host writes a request and then reads whether the loop has ended; the loop says that it
      // has and then looks for a request. One of the two sees the other.
      if (*again == 0) { store_release(&shared->ended, loop->number); }
    }
    team.sync();
    const bool ends = *again == 0;
    team.sync();
    if (!ends || loop->steps_left <= 0 || !look(team)) { return; }
    team.sync();
    if (team.rank() == 0) {
      store_release(&shared->ended, loop->number - 1);
      *again = 1;
    }
  }

 private:
  /// Whether there is something to do, and nothing against it. All looks at the host's memory at
  /// the same time. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE bool look(T& team) const {
    // 1: somebody runs, or comes; 2: somebody runs and has no room for what a step may emit, or the
    // host asks for an end.
    const decide_repeat self = *this;
    team::for_few(team, slots, [=](std::int32_t slot) { self.in.look(slot); });
    team.sync();
    const std::int32_t seen = team::largest_of_few(team, slots + 1, [=](std::int32_t slot) {
      if (slot == self.slots) {
        return load_acquire(&self.shared->stop) < self.loop->number ? 0 : 2;
      }
      if (!self.in.all[slot].runs()) { return self.in.waits(slot) ? 1 : 0; }
      return self.out.has_room(slot, self.out.counted[slot], self.max_new_entries) ? 1 : 2;
    });
    return seen == 1;
  }
};

}  // namespace hunch::kernel

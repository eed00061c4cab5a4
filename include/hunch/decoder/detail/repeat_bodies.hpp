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
  std::int64_t stop = 0;  ///< that of `loop_signals`, when it last looked
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

/// Ends a step: what it has written to the rings is there for the host, and what the host has said
/// decides whether the loop takes another step.
/// \tparam Condition what an executor gives to a step that it repeats, see `ResidentExecutor`.
template <class Condition>
struct decide_repeat {
  inbox_view in;
  std::int32_t slots;  ///< that the step goes over
  rings out;           ///< of which what is written waits for this
  loop_signals* shared;
  loop_state* loop;
  Condition again;
  std::int32_t max_new_entries;  ///< entries that a step may write to a ring

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    const std::int64_t left = loop->steps_left - 1;
    bool more = false;
    // The host writes a request and then reads whether the loop has ended; the loop says that it
    // has and then looks for a request. One of the two sees the other.
    HUNCH_ROLLED
    for (std::int32_t looks = 0; looks < 2 && !more; ++looks) {
      more = look(team) && left > 0;
      if (team.rank() == 0) {
        if (looks == 0) { loop->steps_left = left; }
        if (!more && looks == 0) { store_release(&shared->ended, loop->number); }
        if (more && looks == 1) { store_release(&shared->ended, loop->number - 1); }
      }
      if (left <= 0) { break; }
      team.sync();
    }
    if (team.rank() == 0) { again.set(more); }
  }

 private:
  /// Whether there is something to do, and nothing against it. What is in the host's memory is
  /// written and read side by side, and each thread waits for it once. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE bool look(T& team) const {
    const decide_repeat self = *this;
    team::for_few(team, slots + 1, [=](std::int32_t slot) {
      if (slot == self.slots) {
        self.loop->stop = load_acquire(&self.shared->stop);
        return;
      }
      order_shared();
      store_shared(self.out.written + slot, self.out.counted[slot]);
      const inbox_view::words said = self.in.said(slot);
      const std::int64_t read = load_shared(self.out.read + slot);
      order_shared();
      self.in.note(slot, said);
      self.out.seen[slot] = read;
    });
    // 1: somebody runs, or comes; 2: somebody runs and has no room for what a step may emit, or the
    // host asks for an end.
    const std::int32_t seen = team::largest_of_few(team, slots + 1, [=](std::int32_t slot) {
      if (slot == self.slots) { return self.loop->stop < self.loop->number ? 0 : 2; }
      if (!self.in.all[slot].runs()) { return self.in.waits(slot) ? 1 : 0; }
      const rings& to = self.out;
      return to.has_room(to.counted[slot], to.seen[slot], self.max_new_entries) ? 1 : 2;
    });
    return seen == 1;
  }
};

}  // namespace hunch::kernel

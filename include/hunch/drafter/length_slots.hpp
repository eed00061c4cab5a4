// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/length/length.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// A length policy with what it knows of each slot: a trivially copyable view of `length_slots`,
/// for bodies. Of each slot, one rank of one team calls it.
template <LengthPolicy L>
struct slot_lengths {
  struct slot_state {
    typename L::memory memory;
    bool asked = false;
    std::int32_t limit = 0;   ///< levels of this step at most
    std::int32_t levels = 0;  ///< that were drawn in it
  };

  L policy;
  slot_state* of = nullptr;  ///< [max_batch]

  /// Opens the step of a sequence: how many levels it drafts at most. The policy is not called
  /// where nothing may be drafted.
  HUNCH_HOST_DEVICE std::int32_t begin(std::int32_t slot, std::int32_t max_depth) const {
    slot_state& s = of[slot];
    s.asked = max_depth > 0;
    s.levels = 0;
    s.limit = s.asked ? policy.begin(s.memory, max_depth) : 0;
    return s.limit;
  }

  /// Counts a level that was drawn: whether there may be another one.
  HUNCH_HOST_DEVICE bool drew(std::int32_t slot) const {
    return ++of[slot].levels < of[slot].limit;
  }

  /// Where there may be: whether the policy wants it. The depth of the evidence is set here.
  HUNCH_HOST_DEVICE bool continues(std::int32_t slot, length_evidence evidence) const {
    evidence.depth = of[slot].levels;
    return policy.continues(of[slot].memory, evidence);
  }

  /// Asks for what is known of a slot, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    team::ask_nearby_of_each(team, slot, 1, of);
  }

  /// Levels that were drawn in this step.
  HUNCH_HOST_DEVICE std::int32_t levels(std::int32_t slot) const { return of[slot].levels; }

  /// Closes the step of a sequence: of the first `seen` levels of its draft `kept` were accepted.
  HUNCH_HOST_DEVICE void observe(std::int32_t slot, std::int32_t kept,
                                 std::int32_t seen) const noexcept {
    if (!of[slot].asked) { return; }
    const std::int32_t levels = of[slot].levels;
    policy.observe(of[slot].memory, levels < seen ? levels : seen, kept);
  }

  /// Closes the step of a slot. A sequence that is finished is forgotten.
  HUNCH_HOST_DEVICE void observe(std::int32_t slot, const draft_outcome& outcome) const noexcept {
    if (outcome.slot == no_slot) { return; }
    if (outcome.finished) { return release(slot); }
    observe(slot, outcome.kept, outcome.seen_levels);
  }

  HUNCH_HOST_DEVICE void release(std::int32_t slot) const noexcept { of[slot] = {}; }
};

/// Closes the step of slot `slot`, see `slot_lengths`.
template <LengthPolicy L>
struct observe_lengths {
  slot_lengths<L> lengths;
  draft_outcomes outcomes;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() == 0) { lengths.observe(slot, outcomes.of[slot]); }
  }
};
template <LengthPolicy L>
observe_lengths(slot_lengths<L>, draft_outcomes) -> observe_lengths<L>;

/// What a drafter keeps for a length policy, in memory of an executor: a state for each slot.
/// Nothing is allocated after construction.
template <LengthPolicy L, class Executor>
class length_slots {
 public:
  length_slots(Executor& executor, std::int32_t max_batch)
      : states_(executor, static_cast<std::size_t>(max_batch)) {
    executor.launch(max_batch, clear_slots{states_.data()});
  }

  /// Launches what forgets what was learnt of a slot.
  void release(std::int32_t slot, Executor& executor) const {
    executor.launch(1, clear_slots{states_.data() + slot});
  }

  /// With a policy, which may be another one in each step, and what its clock says now.
  slot_lengths<L> with(const L& policy) const {
    slot_lengths<L> of{policy, states_.data()};
    if constexpr (requires { of.policy.refresh(); }) { of.policy.refresh(); }
    return of;
  }

 private:
  typename Executor::template buffer<typename slot_lengths<L>::slot_state> states_;
};

}  // namespace hunch::drafter

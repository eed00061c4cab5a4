// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/drafter/drafter.hpp>
#include <hunch/length/length.hpp>
#include <hunch/model/rows.hpp>

namespace hunch::drafter {

/// What a drafter keeps for a length policy: a memory for each slot, and how far the draft of each
/// sequence of the step is. Nothing is allocated after construction.
template <LengthPolicy L>
class length_slots {
 public:
  explicit length_slots(std::int32_t max_batch)
      : memories_(static_cast<std::size_t>(max_batch)),
        drafts_(static_cast<std::size_t>(max_batch)) {}

  /// Opens the step of a sequence: how many levels it drafts at most. The policy is not called
  /// where nothing may be drafted.
  std::int32_t begin(const L& policy, step_place place, std::int32_t max_depth) {
    draft& d = at(place.index);
    d = {.slot = place.slot, .asked = max_depth > 0};
    if (d.asked) { d.limit = policy.begin(memory(d.slot), max_depth); }
    return d.limit;
  }

  /// Counts a level of sequence k that was drawn: whether there may be another one.
  bool drew(std::int32_t k) { return ++at(k).levels < at(k).limit; }

  /// Where there may be: whether the policy wants it. The depth of the evidence is set here.
  bool continues(const L& policy, std::int32_t k, length_evidence evidence) {
    evidence.depth = at(k).levels;
    return policy.continues(memory(at(k).slot), evidence);
  }

  /// Levels of sequence k that were drawn in this step.
  std::int32_t levels(std::int32_t k) const { return drafts_[static_cast<std::size_t>(k)].levels; }

  /// Closes the step. A sequence that is finished is forgotten.
  void observe(const L& policy, const draft_outcomes& outcomes) noexcept {
    for (std::int32_t k = 0; k < outcomes.size; ++k) {
      const draft_outcome& outcome = outcomes.of[k];
      const draft& d = at(k);
      if (outcome.finished) {
        release(outcome.slot);
      } else if (d.asked) {
        policy.observe(memory(outcome.slot), d.levels, outcome.kept);
      }
    }
  }

  void release(std::int32_t slot) noexcept { memory(slot) = {}; }

 private:
  struct draft {
    std::int32_t slot = 0;
    bool asked = false;
    std::int32_t limit = 0;
    std::int32_t levels = 0;
  };

  draft& at(std::int32_t k) { return drafts_[static_cast<std::size_t>(k)]; }
  typename L::memory& memory(std::int32_t slot) {
    return memories_[static_cast<std::size_t>(slot)];
  }

  std::vector<typename L::memory> memories_;  ///< per slot
  std::vector<draft> drafts_;                 ///< per sequence of the step
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/drafter/drafter.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// What a length policy knows of every sequence, and how far it went in the present step: the part
/// of a drafter's memory that is the policy's.
template <LengthPolicy Policy>
class draft_lengths {
 public:
  explicit draft_lengths(std::int32_t max_batch)
      : memories_(static_cast<std::size_t>(max_batch)), drafts_(memories_.size()) {}

  /// Begins a step of `size` sequences, none of which drafts.
  void begin(std::int32_t size) {
    for (std::int32_t k = 0; k < size; ++k) { of(k) = {}; }
  }

  /// Sequence k may draft `max_depth` >= 1 levels. Returns how many its policy wants at most.
  std::int32_t open(const Policy& policy, std::int32_t k, std::int32_t slot,
                    std::int32_t max_depth) {
    of(k) = {true, slot, policy.begin(memory(slot), max_depth), 0};
    return of(k).limit;
  }
  std::int32_t limit(std::int32_t k) const { return drafts_[static_cast<std::size_t>(k)].limit; }

  /// A level of sequence k has been drawn: whether another one may be.
  bool goes_on(const Policy& policy, std::int32_t k, const length_evidence& evidence) {
    of(k).levels = evidence.depth;
    return evidence.depth < of(k).limit && policy.goes_on(memory(of(k).slot), evidence);
  }

  /// Closes the step.
  void observe(const Policy& policy, const draft_outcomes& outcomes) noexcept {
    for (std::int32_t k = 0; k < outcomes.size; ++k) {
      const draft_outcome& outcome = outcomes.of[k];
      if (outcome.finished) {
        release(outcome.slot);
      } else if (of(k).begun && !outcome.failed) {
        policy.observe(memory(outcome.slot), of(k).levels, outcome.kept);
      }
    }
  }

  /// A new sequence will have the slot.
  void release(std::int32_t slot) noexcept { memory(slot) = {}; }

 private:
  /// Of one sequence in this step.
  struct draft {
    bool begun = false;  ///< the policy was asked for a length
    std::int32_t slot = 0;
    std::int32_t limit = 0;
    std::int32_t levels = 0;  ///< drawn
  };

  draft& of(std::int32_t k) { return drafts_[static_cast<std::size_t>(k)]; }
  typename Policy::memory& memory(std::int32_t slot) {
    return memories_[static_cast<std::size_t>(slot)];
  }

  std::vector<typename Policy::memory> memories_;  ///< per slot
  std::vector<draft> drafts_;                      ///< per sequence of the step
};

}  // namespace hunch::length

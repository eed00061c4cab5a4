// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "toy_model.hpp"

namespace hunch::test {

/// A draft model that notes whether it is used as one must be that reads accepted tokens again: it
/// is never told to keep a row that it drafted from, and reads no committed token before the target
/// has read the one in front of it.
template <class Real = double>
struct watched_draft : toy_draft<Real> {
  using toy_draft<Real>::toy_draft;

  auto forward(const rows& r) {
    ++passes;
    most_rows = std::max(most_rows, r.size);
    for (std::int32_t i = 0; i < r.size; ++i) {
      step& now = of(r.slot[i]);
      if (r.id[i] == 0) { now = {}; }
      // What is read after a wanted row is guessed.
      if (now.guesses) { now.guessed.push_back(r.id[i]); }
      if (!now.guesses && target != nullptr) {
        const std::size_t known = target->cache().tokens(r.slot[i]).size();
        read_ahead = read_ahead || r.position[i] > static_cast<std::int32_t>(known);
      }
      now.guesses = now.guesses || r.wanted[i] != 0;
    }
    return toy_draft<Real>::forward(r);
  }
  void commit(const kept_rows& kept) noexcept {
    for (std::int32_t i = 0; i < kept.size; ++i) {
      kept_a_guess = kept_a_guess || std::ranges::count(of(kept.slot[i]).guessed, kept.id[i]) > 0;
    }
    toy_draft<Real>::commit(kept);
  }

  toy_target<Real>* target = nullptr;  ///< nullptr: nobody asks whether it reads ahead
  int passes = 0;
  std::int32_t most_rows = 0;  ///< that one pass read
  bool kept_a_guess = false;
  bool read_ahead = false;

 private:
  /// What a sequence has read since the first row of its step.
  struct step {
    bool guesses = false;
    std::vector<std::int32_t> guessed;
  };
  step& of(std::int32_t slot) {
    const auto at = static_cast<std::size_t>(slot);
    if (at >= steps_.size()) { steps_.resize(at + 1); }
    return steps_[at];
  }

  std::vector<step> steps_;
};

/// Such a model, as an EAGLE head is one. It throws where it was told to keep a guess.
template <class Real = double>
struct rereading_draft : watched_draft<Real> {
  using watched_draft<Real>::watched_draft;
  static constexpr bool rereads_accepted = true;

  auto forward(const rows& r) {
    require(!this->kept_a_guess, "a drafted row was kept of a model that reads it again");
    return watched_draft<Real>::forward(r);
  }
};

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <hunch/core/message.hpp>
#include <hunch/draft/detail/copy_rows.hpp>
#include <hunch/drafter/drafter.hpp>

namespace hunch::drafter {

/// States of the target's pass at the last kept node of each sequence: what the law of the next
/// root was made of, or streams beside it. Copied when a step is committed, for the target's own
/// are valid until its next pass only.
template <class Executor>
class kept_states {
 public:
  /// \param each states of a node; `setup.hidden_size` numbers each.
  kept_states(Executor& executor, const drafter_setup& setup, std::int32_t each)
      : executor_(&executor),
        each_(each),
        width_(setup.hidden_size),
        values_(executor, index(setup.max_batch) * index(each) * index(setup.hidden_size)),
        copies_(executor, index(setup.max_batch) * index(each)),
        known_(executor, index(setup.max_batch)) {}

  std::int32_t each() const { return each_; }
  std::int32_t width() const { return width_; }
  /// [max_batch] whether a slot has states, not 0: not before its first step.
  const std::uint8_t* known() const { return known_.data(); }
  /// [max_batch, each, width]
  const float* values() const { return values_.data(); }

  /// Waits for the states of the step before. \param name of the drafter, for errors.
  /// \throws std::invalid_argument if the target's states have another size than is read.
  void wait(const char* name) {
    executor_->synchronize();
    if (other_width_ != 0) {
      throw std::invalid_argument(message({name, ": the target's states have ", other_width_,
                                           " numbers, and ", width_, " are read"}));
    }
  }

  /// Copies what state(row, j) is of the row of the last kept node of each sequence.
  template <class State>
  void observe(const draft_outcomes& outcomes, const State& state) noexcept {
    std::int32_t copies = 0;
    for (std::int32_t k = 0; k < outcomes.slots; ++k) {
      const draft_outcome& outcome = outcomes.of[k];
      if (outcome.slot == no_slot) { continue; }
      std::uint8_t& known = known_.data()[k];
      known = 0;
      if (outcome.finished || outcome.path == nullptr) { continue; }
      const std::int32_t last = outcome.kept == 0 ? 0 : outcome.path[outcome.kept - 1];
      known = 1;
      for (std::int32_t j = 0; j < each_; ++j) {
        const auto from = state(outcome.first_row + outcome.prefix + last, j);
        if (from.size != width_) {
          other_width_ = from.size;
          known = 0;
          break;
        }
        copies_.data()[copies++] = {from.data, {row(outcome.slot, j), width_}};
      }
    }
    if (copies == 0) { return; }
    try {
      executor_->launch(copies, kernel::copy_rows<float>{copies_.data()});
    } catch (...) {  // an executor that has failed: the next step will say so
      std::fill_n(known_.data(), known_.size(), std::uint8_t{0});
    }
  }

  void release(std::int32_t slot) noexcept { known_.data()[slot] = 0; }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  float* row(std::int32_t slot, std::int32_t j) const {
    return values_.data() + (index(slot) * index(each_) + index(j)) * index(width_);
  }

  Executor* executor_;
  std::int32_t each_;
  std::int32_t width_;
  buffer<float> values_;  ///< [max_batch, each, width]
  buffer<kernel::row_copy<float>> copies_;
  buffer<std::uint8_t> known_;    ///< [max_batch]
  std::int32_t other_width_ = 0;  ///< of a state of the target that does not fit
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <hunch/core/config.hpp>
#include <hunch/core/message.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// Copies the states of the last kept node of slot `slot`, if its sequence goes on.
struct keep_states {
  draft_outcomes outcomes;
  const float* const* states;  ///< [slots or rows, each] of the pass; nullptr: it had none
  bool by_row;                 ///< whether those of all rows are there
  std::int32_t each;
  std::int32_t width;
  float* values;        ///< [slots, each, width] out
  std::uint8_t* known;  ///< [slots] out

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const draft_outcome& outcome = outcomes.of[slot];
    if (outcome.slot == no_slot) { return; }
    const bool keeps = states != nullptr && !outcome.finished && outcome.path != nullptr;
    if (team.rank() == 0) { known[slot] = keeps ? 1 : 0; }
    if (!keeps) { return; }
    std::int64_t at = slot;
    if (by_row) {
      const std::int32_t last = outcome.kept == 0 ? 0 : outcome.path[outcome.kept - 1];
      at = std::int64_t{outcome.first_row} + outcome.prefix + last;
    }
    const float* const* const from = states + at * each;
    float* const to = values + std::int64_t{slot} * each * width;
    const std::int32_t size = width;
    for (std::int32_t j = 0; j < each; ++j) {
      const float* const of = from[j];
      float* const copy = to + std::int64_t{j} * size;
      team.for_each(size, [=](std::int64_t i) { copy[i] = of[i]; });
    }
  }
};

/// States of the target's pass at the last kept node of each sequence: what the law of the next
/// root was made of, or streams beside it. Copied when a step is committed, for the target's own
/// are valid until its next pass only.
template <class Executor>
class kept_states {
 public:
  /// \param max_nodes of a tree. \param each states of a node; `setup.hidden_size` numbers each.
  kept_states(Executor& executor, const drafter_setup& setup, std::int32_t max_nodes,
              std::int32_t each)
      : each_(each),
        width_(setup.hidden_size),
        values_(executor, index(setup.max_batch) * index(each) * index(setup.hidden_size)),
        states_(executor, index(host_reads<Executor> ? setup.max_batch
                                                     : setup.max_batch * max_nodes + setup.chunks) *
                              index(each)),
        known_(executor, index(setup.max_batch)) {
    executor.launch(setup.max_batch, clear_slots{known_.data()});
  }

  std::int32_t each() const { return each_; }
  std::int32_t width() const { return width_; }
  /// [max_batch] whether a slot has states, not 0: not before its first step.
  const std::uint8_t* known() const { return known_.data(); }
  /// [max_batch, each, width]
  const float* values() const { return values_.data(); }

  /// Waits for the states of the step before. \param name of the drafter, for errors.
  /// \throws std::invalid_argument if the target's states have another size than is read.
  void wait(Executor& executor, const char* name) {
    executor.synchronize();
    if (other_width_ != 0) {
      throw std::invalid_argument(message({name, ": the target's states have ", other_width_,
                                           " numbers, and ", width_, " are read"}));
    }
  }

  /// Copies what state(row, j) is of the row of the last kept node of each sequence. Where the host
  /// does not see which row that is, it asks for the states of all, padding included.
  template <class State>
  void observe(const draft_outcomes& outcomes, const State& state, Executor& executor) {
    bool fits = true;
    if constexpr (host_reads<Executor>) {
      for (std::int32_t slot = 0; slot < outcomes.slots && fits; ++slot) {
        const draft_outcome& outcome = outcomes.of[slot];
        if (outcome.finished || outcome.path == nullptr) { continue; }
        const std::int32_t last = outcome.kept == 0 ? 0 : outcome.path[outcome.kept - 1];
        fits = place(slot, outcome.first_row + outcome.prefix + last, state);
      }
    } else {
      for (std::int32_t row = 0; row < outcomes.rows && fits; ++row) {
        fits = place(row, row, state);
      }
    }
    executor.launch(outcomes.slots, body(outcomes, fits ? states_.data() : nullptr));
  }
  /// The pass had none.
  void forget(const draft_outcomes& outcomes, Executor& executor) {
    executor.launch(outcomes.slots, body(outcomes, nullptr));
  }
  void release(std::int32_t slot, Executor& executor) {
    executor.launch(1, clear_slots{known_.data() + slot});
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  /// The states of a row of the pass become those at `at`. False if they have another size.
  template <class State>
  bool place(std::int32_t at, std::int32_t row, const State& state) {
    for (std::int32_t j = 0; j < each_; ++j) {
      const auto from = state(row, j);
      if (from.size != width_) {
        other_width_ = from.size;
        return false;
      }
      states_.data()[index(at) * index(each_) + index(j)] = from.data;
    }
    return true;
  }

  keep_states body(const draft_outcomes& outcomes, const float* const* states) const {
    return {.outcomes = outcomes,
            .states = states,
            .by_row = !host_reads<Executor>,
            .each = each_,
            .width = width_,
            .values = values_.data(),
            .known = known_.data()};
  }

  std::int32_t each_;
  std::int32_t width_;
  buffer<float> values_;                         ///< [max_batch, each, width]
  host_written<Executor, const float*> states_;  ///< [max_batch or rows, each] of the pass
  buffer<std::uint8_t> known_;                   ///< [max_batch]
  std::int32_t other_width_ = 0;                 ///< of a state of the target that does not fit
};

}  // namespace hunch::drafter

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
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// Copies the states of the last kept node of slot `slot`, if its sequence goes on.
struct keep_states {
  draft_outcomes outcomes;
  const float* const* states = nullptr;  ///< [slots or rows, each] of the pass; nullptr: none
  bool by_row = false;                   ///< whether those of all rows are there
  std::int32_t each = 0;
  std::int32_t width = 0;
  float* values = nullptr;        ///< [slots, each, width] out
  std::uint8_t* known = nullptr;  ///< [slots] out

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
      : arrays_(executor) {
    const std::int32_t rows = setup.max_batch * max_nodes + setup.chunks;
    made_.by_row = !host_reads<Executor>;
    made_.each = each;
    made_.width = setup.hidden_size;
    arrays_.give(std::int64_t{setup.max_batch} * each * setup.hidden_size, made_.values);
    arrays_.give(setup.max_batch, made_.known);
    arrays_.give_host_written(std::int64_t{made_.by_row ? rows : setup.max_batch} * each, states_);
    executor.launch(setup.max_batch, clear_slots{made_.known});
  }

  std::int32_t each() const { return made_.each; }
  std::int32_t width() const { return made_.width; }
  /// [max_batch] whether a slot has states, not 0: not before its first step.
  const std::uint8_t* known() const { return made_.known; }
  /// [max_batch, each, width]
  const float* values() const { return made_.values; }

  /// Copies what state(row, j) is of the row of the last kept node of each sequence. Where the host
  /// does not see which row that is, it asks for the states of all, padding included; else it waits
  /// for the outcomes.
  template <class State>
  void observe(const draft_outcomes& outcomes, const State& state, Executor& executor) {
    if constexpr (host_reads<Executor>) {
      executor.synchronize();
      for (std::int32_t slot = 0; slot < outcomes.slots; ++slot) {
        const draft_outcome& outcome = outcomes.of[slot];
        if (outcome.finished || outcome.path == nullptr) { continue; }
        const std::int32_t last = outcome.kept == 0 ? 0 : outcome.path[outcome.kept - 1];
        place(slot, outcome.first_row + outcome.prefix + last, state);
      }
    } else {
      for (std::int32_t row = 0; row < outcomes.rows; ++row) { place(row, row, state); }
    }
    executor.launch(outcomes.slots, body(outcomes, states_));
  }
  /// The pass had none.
  void forget(const draft_outcomes& outcomes, Executor& executor) {
    executor.launch(outcomes.slots, body(outcomes, nullptr));
  }
  void release(std::int32_t slot, Executor& executor) {
    executor.launch(1, clear_slots{made_.known + slot});
  }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  /// The states of a row of the pass become those at `at`.
  template <class State>
  void place(std::int32_t at, std::int32_t row, const State& state) {
    for (std::int32_t j = 0; j < made_.each; ++j) {
      states_[index(at) * index(made_.each) + index(j)] = state(row, j).data;
    }
  }

  keep_states body(const draft_outcomes& outcomes, const float* const* states) const {
    keep_states body = made_;
    body.outcomes = outcomes;
    body.states = states;
    return body;
  }

  owned_arrays<Executor> arrays_;
  keep_states made_;                ///< but for what varies from step to step
  const float** states_ = nullptr;  ///< [max_batch or rows, each] of the pass
};

}  // namespace hunch::drafter

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What is cached and what is staged, where only bodies look at it. The values of memory that
/// begins as 0 are those of empty slots.

namespace engine::device {

/// A row that is staged, named by its id.
struct staged_row {
  std::uint32_t step = 0;  ///< one more than `slot_state::step`, or it is void
  std::int32_t parent = 0;
  std::int32_t depth = 0;   ///< rows on its path from the end of the cache, itself included
  std::int32_t run = 0;     ///< how many ids, this one the last, are each the parent of the next
  std::int32_t layers = 0;  ///< that it goes through: a view of the first ones stages rows, too
};

struct slot_state {
  std::int32_t length = 0;  ///< cached positions
  std::uint32_t step = 0;   ///< how often what was staged became void
};

/// All slots, as passes through `layers` layers see them: what others have staged is not there. A
/// trivially copyable view.
struct slot_table {
  std::int32_t layers = 0;
  std::int32_t max_batch = 0;
  std::int32_t max_length = 0;
  std::int32_t max_staged = 0;
  slot_state* slots = nullptr;   ///< [max_batch]
  staged_row* staged = nullptr;  ///< [max_batch, max_staged]

  HUNCH_HOST_DEVICE bool has_slot(std::int32_t slot) const { return slot >= 0 && slot < max_batch; }
  HUNCH_HOST_DEVICE staged_row& at(std::int32_t slot, std::int32_t id) const {
    return staged[static_cast<std::int64_t>(slot) * max_staged + id];
  }
  /// The staged row, or nullptr if there is none of that id.
  HUNCH_HOST_DEVICE const staged_row* find(std::int32_t slot, std::int32_t id) const {
    if (id < 0 || id >= max_staged) { return nullptr; }
    const staged_row& row = at(slot, id);
    return row.step == slots[slot].step + 1 && row.layers == layers ? &row : nullptr;
  }
  /// The position to which kept row `index` goes, or -1 if it is passed over. Collective.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE std::int32_t place_of(T& team, const hunch::kept_rows& kept,
                                          std::int32_t index) const {
    const std::int32_t slot = kept.slot[index];
    if (!has_slot(slot) || find(slot, kept.id[index]) == nullptr) { return -1; }
    const slot_table self = *this;
    const std::int32_t before = team.reduce(
        index, std::int32_t(0),
        [=](std::int64_t i) {
          return kept.slot[i] == slot && self.find(slot, kept.id[i]) != nullptr ? 1 : 0;
        },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    const std::int32_t position = slots[slot].length + before;
    return position < max_length ? position : -1;
  }
  /// Makes void what is staged for a slot.
  HUNCH_HOST_DEVICE void discard(std::int32_t slot) const { ++slots[slot].step; }
};

}  // namespace engine::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/cells.hpp>
#include <engine/device/slots.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What a commit does, in this order: kept rows move, then slots are longer by them, then released
/// slots are empty. Padding, ids that are not staged and rows without room are passed over.

namespace engine::device {

/// Copies kept row `index` to its place in the cache.
struct move_kept {
  hunch::kept_rows kept;
  slot_table table;
  cells cache;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t position = table.place_of(team, kept, index);
    if (position < 0) { return; }
    cache.keep(team, kept.slot[index], kept.id[index], position);
  }
};

/// Makes the slot whose first kept row is `index` longer; what is still staged there is void.
struct lengthen_slots {
  hunch::kept_rows kept;
  slot_table table;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (team.rank() != 0) { return; }
    const std::int32_t slot = kept.slot[index];
    if (!table.has_slot(slot)) { return; }
    if (index > 0 && kept.slot[index - 1] == slot) { return; }
    std::int32_t& length = table.slots[slot].length;
    for (std::int32_t i = index; i < kept.size && kept.slot[i] == slot; ++i) {
      if (table.find(slot, kept.id[i]) != nullptr && length < table.max_length) { ++length; }
    }
    table.discard(slot);
  }
};

/// Empties released slot `index`.
struct release_slots {
  const std::int32_t* released;
  slot_table table;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = released[index];
    if (team.rank() != 0 || !table.has_slot(slot)) { return; }
    table.slots[slot].length = 0;
    table.discard(slot);
  }
};

}  // namespace engine::device

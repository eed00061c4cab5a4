// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/slots.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The beginning of a pass: its rows are staged, and every row learns what it attends to.

namespace engine::device {

/// A row of a pass. Padding and rows without room are left out of it: their slot is
/// `hunch::no_slot`.
struct planned_row {
  std::int32_t slot = hunch::no_slot;
  std::int32_t id = 0;
  std::int32_t path = 0;  ///< of `pass_plan::paths`
  std::int32_t position = 0;
  std::int32_t cached = 0;  ///< positions of the cache that it attends to
  std::int32_t depth = 0;   ///< staged rows that it attends to, itself included
  hunch::token token = 0;
};

/// The rows of a pass, as bodies see them. A trivially copyable view.
struct pass_plan {
  planned_row* rows = nullptr;    ///< [max_rows]
  std::int32_t* paths = nullptr;  ///< [paths, path_stride] ids from the end of the cache on
  std::int32_t path_stride = 0;
  std::uint8_t* computed = nullptr;   ///< [max_rows] 1 where a row takes part
  std::uint8_t* wanted = nullptr;     ///< [max_rows] 1 where its output is asked for, too
  hunch::status* statuses = nullptr;  ///< [max_rows]

  /// Of which a row attends to the first `depth` ids.
  HUNCH_HOST_DEVICE std::int32_t* path(std::int32_t index) const {
    return paths + static_cast<std::int64_t>(index) * path_stride;
  }
};

/// Stages the rows of the sequence whose first row is `index`. Nothing is refused here: a row
/// without room, or that breaks the rules of `hunch::rows`, has the status `cache_full`, and so
/// have the later ones of its sequence.
struct stage_rows {
  hunch::rows given;
  slot_table table;
  pass_plan plan;
  std::int32_t max_outputs;  ///< rows from this one on have no output

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (team.rank() != 0) { return; }
    const std::int32_t slot = given.slot[index];
    if (slot == hunch::no_slot) { return leave_out(index, hunch::status::ok); }
    if (index > 0 && given.slot[index - 1] == slot) { return; }
    if (table.has_slot(slot) && given.id[index] == 0) { table.discard(slot); }
    bool room = table.has_slot(slot);
    for (std::int32_t i = index; i < given.size && given.slot[i] == slot; ++i) {
      room = room && stage(i, slot);
      if (!room) { leave_out(i, hunch::status::cache_full); }
    }
  }

 private:
  HUNCH_HOST_DEVICE void leave_out(std::int32_t i, hunch::status why) const {
    plan.rows[i] = {};
    plan.computed[i] = 0;
    plan.wanted[i] = 0;
    plan.statuses[i] = why;
  }

  HUNCH_HOST_DEVICE bool stage(std::int32_t i, std::int32_t slot) const {
    const std::int32_t id = given.id[i];
    const std::int32_t parent = given.parent[i];
    const std::int32_t position = given.position[i];
    const bool wanted = given.wanted[i] != 0;
    if (id < 0 || id >= table.max_staged) { return false; }
    staged_row row{.step = table.slots[slot].step + 1,
                   .parent = parent,
                   .depth = 1,
                   .run = 1,
                   .layers = table.layers};
    table.at(slot, id).step = 0;
    if (parent != hunch::end_of_cache) {
      const staged_row* const above = table.find(slot, parent);
      if (above == nullptr) { return false; }
      row.depth = above->depth + 1;
      row.run = parent == id - 1 ? above->run + 1 : 1;
    }
    const std::int32_t cached = table.slots[slot].length;
    if (cached + row.depth > table.max_length) { return false; }
    if (position < 0 || position >= table.max_length) { return false; }
    if (wanted && i >= max_outputs) { return false; }
    table.at(slot, id) = row;
    plan.rows[i] = {.slot = slot,
                    .id = id,
                    .path = i,
                    .position = position,
                    .cached = cached,
                    .depth = row.depth,
                    .token = given.tokens[i]};
    plan.computed[i] = 1;
    plan.wanted[i] = wanted ? 1 : 0;
    plan.statuses[i] = hunch::status::ok;
    return true;
  }
};

/// Writes the path of row `index`.
struct trace_paths {
  slot_table table;
  pass_plan plan;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = plan.rows[index];
    if (row.slot == hunch::no_slot) { return; }
    std::int32_t* const path = plan.path(row.path);
    std::int32_t id = row.id;
    for (std::int32_t left = row.depth; left > 0;) {
      const std::int32_t run = table.at(row.slot, id).run;
      const std::int32_t last = left - 1;
      team.for_each(run,
                    [=](std::int64_t k) { path[last - k] = id - static_cast<std::int32_t>(k); });
      left -= run;
      id = table.at(row.slot, id - run + 1).parent;
    }
  }
};

}  // namespace engine::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <engine/device/cells.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/arithmetic.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The beginning and the end of a pass over canvases: what `canvas_planner` does on the host. Rows
/// of a slot are staged by their number in it, after the cells of what is cached.

namespace engine::device {

/// The states of what has no law.
inline constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// How many of n elements two lists begin with alike. Collective.
template <hunch::Team T>
HUNCH_HOST_DEVICE std::int32_t common(T& team, const hunch::token* a, const hunch::token* b,
                                      std::int32_t n) {
  return team.reduce(
      n, n, [=](std::int64_t i) { return a[i] == b[i] ? n : static_cast<std::int32_t>(i); },
      [](std::int32_t x, std::int32_t y) { return x < y ? x : y; });
}

/// What is read of a canvas of a pass, and which of the rows are its own.
struct read_canvas {
  bool asked = false;          ///< it takes part
  std::int32_t size = 0;       ///< positions
  std::int32_t known = 0;      ///< those before it are read causally
  std::int32_t block_end = 0;  ///< after the first block with masks
  std::int32_t end = 0;        ///< after the last position that is read
  std::int32_t common = 0;     ///< tokens that it begins with like the canvas before it
  std::int32_t before = -1;    ///< the canvas of its slot with the rows of positions before `same`
  std::int32_t same = 0;       ///< the position of its first own row
  std::int32_t begin = 0;      ///< that row among those of its slot
  std::int32_t rows = 0;       ///< of its own

  /// After the block of a position, and so after what its row sees.
  HUNCH_HOST_DEVICE std::int32_t end_of_block(std::int32_t position) const {
    if (position < known) { return position + 1; }
    if (position < block_end) { return block_end; }
    const std::int32_t length = block_end - known;
    const std::int32_t block = (position - block_end) / length + 1;
    return hunch::kernel::smaller(block_end + block * length, size);
  }
};

/// What is cached of a slot, and what a pass does with it.
struct canvas_slot {
  std::int32_t length = 0;  ///< cached positions
  std::int32_t from = 0;    ///< of these, those that the rows of the pass read
  std::int32_t to = 0;      ///< positions that are cached after the pass
  std::int32_t row = 0;     ///< the first one in the pass
  std::int32_t rows = 0;    ///< in the pass
  bool staged = false;      ///< there was room for them
};

/// Where the state comes from that yields the logits of a wanted position.
struct canvas_output {
  static constexpr std::int32_t cached = -1;  ///< it is that of the slot's last cached position
  static constexpr std::int32_t no_law = -2;  ///< the canvas has no room, or breaks the rules
  static constexpr std::int32_t none = -3;    ///< nothing is wanted

  std::int32_t row = none;  ///< of the pass, or one of these
  std::int32_t slot = 0;
};

/// The rows and the outputs of a pass over canvases. A trivially copyable view.
struct canvas_pass {
  pass_plan plan;
  canvas_output* outputs = nullptr;  ///< [max_outputs]
  std::int32_t max_rows = 0;         ///< of this pass
  std::int32_t max_outputs = 0;

  HUNCH_HOST_DEVICE void leave_out(std::int32_t row) const {
    plan.rows[row] = {};
    plan.computed[row] = 0;
    plan.wanted[row] = 0;
  }
  /// Leaves out what is behind `rows` rows and `wanted` outputs. Collective.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE void pad(T& team, std::int32_t rows, std::int32_t wanted) const {
    const canvas_pass self = *this;
    team.for_each(rows < max_rows ? max_rows - rows : 0,
                  [=](std::int64_t k) { self.leave_out(rows + static_cast<std::int32_t>(k)); });
    team.for_each(wanted < max_outputs ? max_outputs - wanted : 0,
                  [=](std::int64_t k) { self.outputs[wanted + k] = {}; });
  }
};

/// All canvases of a pass and all slots, as bodies see them. A trivially copyable view.
struct canvas_table {
  read_canvas* canvases = nullptr;  ///< [max_canvases]
  canvas_slot* slots = nullptr;     ///< [max_batch]
  hunch::token* tokens = nullptr;   ///< [max_batch, max_length] of cached positions
  std::int32_t max_batch = 0;
  std::int32_t max_length = 0;
  std::int32_t max_staged = 0;  ///< rows of a slot in a pass
  hunch::token mask_token = 0;
  std::int32_t shift = 0;  ///< 1 where the law of a position is in the output row before it
  bool causal_prefix = false;

  HUNCH_HOST_DEVICE bool has_slot(std::int32_t slot) const { return slot >= 0 && slot < max_batch; }
  HUNCH_HOST_DEVICE hunch::token* tokens_of(std::int32_t slot) const {
    return tokens + static_cast<std::int64_t>(slot) * max_length;
  }
  /// The row among those of its slot that a position of a canvas has.
  HUNCH_HOST_DEVICE std::int32_t row_of(std::int32_t canvas, std::int32_t position) const {
    while (position < canvases[canvas].same && canvases[canvas].before >= 0) {
      canvas = canvases[canvas].before;
    }
    return canvases[canvas].begin + position - canvases[canvas].same;
  }
  /// Rows of the first n canvases. Collective.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE std::int32_t rows_before(T& team, std::int32_t n) const {
    const read_canvas* const all = canvases;
    return team.reduce(
        n, std::int32_t(0), [=](std::int64_t i) { return all[i].rows; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
};

HUNCH_HOST_DEVICE inline bool begins_slot(const hunch::diffusion::canvases& given,
                                          std::int32_t index) {
  return index == 0 || given.slot[index - 1] != given.slot[index];
}

/// Notes what is read of canvas `index`. One that is padding, that nothing is wanted of, or that
/// breaks the rules of `hunch::diffusion::canvases`, does not take part.
struct look_at_canvases {
  hunch::diffusion::canvases given;
  canvas_table table;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    read_canvas out;
    if (table.has_slot(given.slot[index])) { look(team, index, out); }
    if (team.rank() == 0) { table.canvases[index] = out; }
  }

 private:
  template <hunch::Team T>
  HUNCH_HOST_DEVICE void look(T& team, std::int32_t index, read_canvas& out) const {
    const auto tokens = given.canvas(index);
    const auto wanted = given.wanted_of(index);
    if (wanted.size < 1 || tokens.size < 1 || tokens.size > table.max_length) { return; }
    out.size = tokens.size;
    out.block_end = tokens.size;
    if (table.causal_prefix && !find_first_block(team, index, out)) { return; }
    const std::int32_t least = out.known < table.shift ? table.shift : out.known;
    const std::int32_t last = wanted[wanted.size - 1];
    if (wanted[0] < least || last < wanted[0] || last >= out.size) { return; }
    out.end = out.end_of_block(last - table.shift);
    out.asked = true;
    if (begins_slot(given, index)) { return; }
    const auto before = given.canvas(index - 1);
    out.common =
        common(team, before.data, tokens.data, hunch::kernel::smaller(before.size, out.size));
  }

  /// The first block with masks, which begins no earlier than that of the committed text: what a
  /// canvas says must not depend on which of its tokens are drafts.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE bool find_first_block(T& team, std::int32_t index, read_canvas& out) const {
    const std::int32_t known = given.known[index];
    const std::int32_t length = given.block_end[index] - known;
    const std::int32_t left = out.size - known;
    if (known < 0 || length < 1 || length > left) { return false; }
    const hunch::token* const from = given.canvas(index).data + known;
    const hunch::token mask = table.mask_token;
    const std::int32_t last = left - 1;
    const std::int32_t first = team.reduce(
        left, last,
        [=](std::int64_t i) { return from[i] == mask ? static_cast<std::int32_t>(i) : last; },
        [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
    out.known = known + first / length * length;
    out.block_end = hunch::kernel::smaller(out.known + length, out.size);
    return true;
  }
};

/// Decides what the canvases of the slot whose first one is `index` read of its cache, which of
/// their rows they share, and what is cached afterwards: positions have the keys and values of a
/// cached one, or of a row of the canvas before, where both are in a causal prefix and the tokens
/// up to there are the same.
struct plan_slots {
  hunch::diffusion::canvases given;
  canvas_table table;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = given.slot[index];
    if (!table.has_slot(slot) || !begins_slot(given, index)) { return; }
    canvas_slot s = table.slots[slot];
    std::int32_t end = index;
    std::int32_t first = -1;
    std::int32_t shared = 0;
    for (; end < given.size && given.slot[end] == slot; ++end) {
      const read_canvas& c = table.canvases[end];
      if (first >= 0) { shared = hunch::kernel::smaller(shared, c.common); }
      if (!c.asked) { continue; }
      shared = first < 0 ? c.known : hunch::kernel::smaller(shared, c.known);
      first = first < 0 ? end : first;
    }
    s.from = s.length;
    s.to = s.length;
    if (first >= 0) {
      const std::int32_t most = hunch::kernel::smaller(s.length, shared);
      const std::int32_t size = common(team, table.tokens_of(slot), given.canvas(first).data, most);
      // The one hidden state that is kept is that of the last cached position.
      const std::int32_t rewound = size < table.shift ? 0 : size - table.shift;
      s.from = size < s.length ? rewound : size;
      s.to = shared;
    }
    team.sync();  // all ranks have seen what is there
    if (team.rank() == 0) { share_rows(index, end, s); }
  }

 private:
  HUNCH_HOST_DEVICE void share_rows(std::int32_t index, std::int32_t end, canvas_slot s) const {
    std::int32_t before = -1;
    std::int32_t alike = 0;
    s.rows = 0;
    for (std::int32_t i = index; i < end; ++i) {
      read_canvas& c = table.canvases[i];
      if (before >= 0) { alike = hunch::kernel::smaller(alike, c.common); }
      if (!c.asked) { continue; }
      c.before = before;
      c.same = before < 0
                   ? s.from
                   : hunch::kernel::smaller(
                         alike, hunch::kernel::smaller(table.canvases[before].known, c.known));
      c.begin = s.rows;
      c.rows = c.end > c.same ? c.end - c.same : 0;
      s.rows += c.rows;
      before = i;
      alike = c.size;
    }
    if (s.rows > table.max_staged) {
      for (std::int32_t i = index; i < end; ++i) { table.canvases[i] = {}; }
      s.rows = 0;
      s.from = s.length;
      s.to = s.length;
    }
    table.slots[given.slot[index]] = s;
  }
};

/// Stages the rows of canvas `index`, and says where the states of its wanted positions come from.
/// Nothing is refused here: a slot without room has no law.
struct stage_canvases {
  hunch::diffusion::canvases given;
  canvas_table table;
  canvas_pass pass;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (index + 1 == given.size) {
      pass.pad(team, table.rows_before(team, given.size), given.first_wanted[given.size]);
    }
    const std::int32_t slot = given.slot[index];
    if (!table.has_slot(slot)) { return write_outputs(team, index, slot, 0, false); }
    std::int32_t first = index;
    while (!begins_slot(given, first)) { --first; }
    const std::int32_t row = table.rows_before(team, first);
    canvas_slot& of = table.slots[slot];
    const bool room = row + of.rows <= pass.max_rows;
    if (index == first && team.rank() == 0) {
      of.row = row;
      of.staged = room;
      if (!room) { of.to = of.length; }
    }
    const bool asked = room && table.canvases[index].asked;
    write_rows(team, index, row, asked);
    write_outputs(team, index, slot, row, asked);
  }

 private:
  template <hunch::Team T>
  HUNCH_HOST_DEVICE void write_rows(T& team, std::int32_t index, std::int32_t row,
                                    bool asked) const {
    const stage_canvases self = *this;
    const read_canvas c = table.canvases[index];
    const std::int32_t slot = given.slot[index];
    const std::int32_t from = table.slots[slot].from;
    const hunch::token* const tokens = given.canvas(index).data;
    team.for_each(c.rows, [=](std::int64_t k) {
      const std::int32_t id = c.begin + static_cast<std::int32_t>(k);
      const std::int32_t at = row + id;
      if (!asked) {
        if (at < self.pass.max_rows) { self.pass.leave_out(at); }
        return;
      }
      const std::int32_t position = c.same + static_cast<std::int32_t>(k);
      self.pass.plan.rows[at] = {.slot = slot,
                                 .id = id,
                                 .path = index,
                                 .position = position,
                                 .cached = from,
                                 .depth = c.end_of_block(position) - from,
                                 .token = tokens[position]};
      self.pass.plan.computed[at] = 1;
    });
    if (!asked) { return; }
    std::int32_t* const path = pass.plan.path(index);
    team.for_each(c.end > from ? c.end - from : 0, [=](std::int64_t k) {
      path[k] = self.table.row_of(index, from + static_cast<std::int32_t>(k));
    });
  }

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void write_outputs(T& team, std::int32_t index, std::int32_t slot,
                                       std::int32_t row, bool asked) const {
    const stage_canvases self = *this;
    const auto wanted = given.wanted_of(index);
    canvas_output* const out = pass.outputs + given.first_wanted[index];
    const std::int32_t from = asked ? table.slots[slot].from : 0;
    team.for_each(wanted.size, [=](std::int64_t w) {
      const std::int32_t at = wanted[static_cast<std::int32_t>(w)] - self.table.shift;
      if (!asked) {
        out[w] = {canvas_output::no_law, slot};
      } else if (at < from) {
        out[w] = {canvas_output::cached, slot};
      } else {
        out[w] = {row + self.table.row_of(index, at), slot};
      }
    });
  }
};

/// The state of output `index`, as input of the head and as floats. What has no law has logits that
/// are no numbers, which a decoder takes for an error of the request.
template <class Input>
struct state_outputs {
  const canvas_output* outputs;
  const float* cached;    ///< [max_batch, width] of slots
  const float* residual;  ///< [rows, size]
  std::int32_t size;
  const float* weight;  ///< [size]
  float epsilon;
  Input* out;  ///< [outputs, width]
  std::int32_t width;
  float* states;         ///< [outputs, width]
  std::uint8_t* wanted;  ///< [outputs] 1 where there is a state

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const canvas_output from = outputs[index];
    if (team.rank() == 0) { wanted[index] = from.row == canvas_output::none ? 0 : 1; }
    if (from.row == canvas_output::none) { return; }
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    float* const state = states + static_cast<std::int64_t>(index) * width;
    if (from.row >= 0) {
      normalise(team, residual + static_cast<std::int64_t>(from.row) * size, size, weight, epsilon,
                to, state);
      return;
    }
    const float* const kept = from.row == canvas_output::cached
                                  ? cached + static_cast<std::int64_t>(from.slot) * width
                                  : nullptr;
    team.for_each(size, [=](std::int64_t i) {
      const float y = kept == nullptr ? no_number : kept[i];
      put(to[i], y);
      put(state[i], y);
    });
  }
};

/// Puts row `index` into the cache, if it is of a prefix that all canvases of its slot know, and
/// keeps the state of the last one.
struct keep_prefix {
  const planned_row* rows;
  canvas_table table;
  cells cache;
  const float* residual;  ///< [rows, size]
  std::int32_t size;
  const float* weight;  ///< [size]
  float epsilon;
  float* states;  ///< [max_batch, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = rows[index];
    if (row.slot == hunch::no_slot) { return; }
    const std::int32_t to = table.slots[row.slot].to;
    if (row.position >= to) { return; }
    cache.keep(team, row.slot, row.id, row.position);
    if (team.rank() == 0) { table.tokens_of(row.slot)[row.position] = row.token; }
    if (row.position + 1 < to) { return; }
    normalise(team, residual + static_cast<std::int64_t>(index) * size, size, weight, epsilon,
              states + static_cast<std::int64_t>(row.slot) * width, static_cast<float*>(nullptr));
  }
};

/// After it: the slot whose first canvas is `index` has cached what the pass has read.
struct note_prefix {
  hunch::diffusion::canvases given;
  canvas_table table;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = given.slot[index];
    if (team.rank() != 0 || !table.has_slot(slot) || !begins_slot(given, index)) { return; }
    table.slots[slot].length = table.slots[slot].to;
  }
};

/// to[i] = from[i] for the rows that take part.
struct copy_rows {
  const std::uint8_t* computed;
  const float* from;  ///< [rows, size]
  float* to;          ///< [rows, size]
  std::int32_t size;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (computed[index] == 0) { return; }
    const float* const x = from + static_cast<std::int64_t>(index) * size;
    float* const y = to + static_cast<std::int64_t>(index) * size;
    team.for_each(size, [=](std::int64_t i) { y[i] = x[i]; });
  }
};

}  // namespace engine::device

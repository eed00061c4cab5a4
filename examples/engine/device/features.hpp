// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/matrix.hpp>
#include <engine/device/slots.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The last hidden states of a model, kept beside its cache, and what an EAGLE head begins with.
/// They are inputs of a product, and so bfloat16.

namespace engine::device {

/// Per slot, those of the cached positions, then those of staged rows, by id. A trivially copyable
/// view.
struct feature_cells {
  hunch::bfloat16* data = nullptr;  ///< [max_batch, length + staged, width]
  std::int32_t width = 0;           ///< 0: nothing is kept
  std::int32_t max_length = 0;
  std::int32_t max_staged = 0;

  HUNCH_HOST_DEVICE hunch::bfloat16* cached(std::int32_t slot, std::int32_t position) const {
    return data + (static_cast<std::int64_t>(slot) * (max_length + max_staged) + position) * width;
  }
  HUNCH_HOST_DEVICE hunch::bfloat16* staged(std::int32_t slot, std::int32_t id) const {
    return cached(slot, max_length + id);
  }
};

/// Keeps the state of row `index`.
struct stage_features {
  const planned_row* rows;
  const float* states;  ///< [rows, width]
  feature_cells to;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = rows[index];
    if (row.slot == hunch::no_slot) { return; }
    const float* const from = states + static_cast<std::int64_t>(index) * to.width;
    hunch::bfloat16* const out = to.staged(row.slot, row.id);
    team.for_each(to.width, [=](std::int64_t i) { out[i] = hunch::to_bfloat16(from[i]); });
  }
};

/// Copies the feature of kept row `index` to its place beside the cache, as `move_kept` does keys
/// and values.
struct move_features {
  hunch::kept_rows kept;
  slot_table table;
  feature_cells of;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t position = table.place_of(team, kept, index);
    if (position < 0) { return; }
    const std::int32_t slot = kept.slot[index];
    const hunch::bfloat16* const from = of.staged(slot, kept.id[index]);
    hunch::bfloat16* const to = of.cached(slot, position);
    team.for_each(of.width, [=](std::int64_t i) { to[i] = from[i]; });
  }
};

/// What the layers of an EAGLE head begin with: the embedding of the token of row `index`, and the
/// feature of the token before it: the target's where it has read that token, else the head's own.
/// It asks the rows as they are given, for a router reads this before they are staged.
template <class Number>
struct join_rows {
  hunch::rows rows;
  slot_table own;  ///< has no slot that the target has not
  feature_cells own_features;
  slot_table target;
  feature_cells target_features;
  const hunch::bfloat16* embedding;  ///< [vocab_size, embedding_width]
  std::int32_t embedding_width;
  std::int32_t size;  ///< of a state
  Number* out;        ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = rows.slot[index];
    if (!own.has_slot(slot)) { return; }
    const hunch::bfloat16* const token =
        embedding + static_cast<std::int64_t>(rows.tokens[index]) * embedding_width;
    const hunch::bfloat16* const before =
        feature_before(slot, rows.position[index] - 1, rows.parent[index]);
    const std::int32_t n = size;
    Number* const to = out + static_cast<std::int64_t>(index) * width;
    team.for_each(n, [=](std::int64_t i) {
      put(to[i], hunch::to_float(token[i]));
      put(to[n + i], before == nullptr ? 0.0f : hunch::to_float(before[i]));
    });
  }

 private:
  HUNCH_HOST_DEVICE const hunch::bfloat16* feature_before(std::int32_t slot, std::int32_t position,
                                                          std::int32_t parent) const {
    if (position < 0) { return nullptr; }
    if (position < target.slots[slot].length) { return target_features.cached(slot, position); }
    const bool staged = parent >= 0 && parent < own.max_staged;
    return staged ? own_features.staged(slot, parent) : nullptr;
  }
};

}  // namespace engine::device

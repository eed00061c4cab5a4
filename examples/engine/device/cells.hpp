// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

namespace engine::device {

/// Keys and values. Per slot, layer and key-value head there is one run of cells: those of the
/// cached positions, then those of staged rows, by id. A trivially copyable view.
struct cells {
  hunch::bfloat16* keys = nullptr;    ///< [max_batch, layers, kv_heads, length + staged, head_dim]
  hunch::bfloat16* values = nullptr;  ///< likewise
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t max_length = 0;
  std::int32_t max_staged = 0;    ///< rows of streams included
  std::int32_t max_attended = 0;  ///< places that a row attends to at most

  /// The first element of a run.
  HUNCH_HOST_DEVICE std::int64_t run(std::int32_t slot, std::int32_t layer,
                                     std::int32_t head) const {
    return ((static_cast<std::int64_t>(slot) * layers + layer) * kv_heads + head) *
           (max_length + max_staged) * head_dim;
  }
  /// The first element of a cell in its run.
  HUNCH_HOST_DEVICE std::int64_t cached(std::int32_t position) const {
    return static_cast<std::int64_t>(position) * head_dim;
  }
  HUNCH_HOST_DEVICE std::int64_t staged(std::int32_t id) const { return cached(max_length + id); }

  /// Copies the cell of a staged row to that of a position, in all layers. Collective.
  template <hunch::Team T>
  HUNCH_HOST_DEVICE void keep(T& team, std::int32_t slot, std::int32_t id,
                              std::int32_t position) const {
    const std::int64_t from = staged(id);
    const std::int64_t to = cached(position);
    team.for_each(static_cast<std::int64_t>(layers) * kv_heads * head_dim, [&](std::int64_t i) {
      const auto head = static_cast<std::int32_t>(i / head_dim);
      const std::int64_t at = run(slot, 0, head) + i % head_dim;
      keys[at + to] = keys[at + from];
      values[at + to] = values[at + from];
    });
  }
};

}  // namespace engine::device

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <engine/device/cells.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/arithmetic.hpp>
#include <hunch/team/team.hpp>

namespace engine::device {

/// Adds biases, turns queries and keys of a row to its position (Su et al., 2021) and stages its
/// keys and values. Queries stay where they are, scaled.
struct rotate_rows {
  const planned_row* rows;
  cells cache;
  std::int32_t layer;
  std::int32_t heads;
  const float* cosine;  ///< [max_length, head_dim / 2]
  const float* sine;
  float scale;         ///< of queries
  const float* bias;   ///< [(heads + 2 kv_heads) head_dim], or nullptr
  float* projections;  ///< [rows, (heads + 2 kv_heads) head_dim] queries, keys, values

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = rows[index];
    if (row.slot == hunch::no_slot) { return; }
    const std::int32_t head_dim = cache.head_dim;
    const std::int32_t half = head_dim / 2;
    const float* const c = cosine + static_cast<std::int64_t>(row.position) * half;
    const float* const s = sine + static_cast<std::int64_t>(row.position) * half;
    float* const projected =
        projections + static_cast<std::int64_t>(index) * (heads + 2 * cache.kv_heads) * head_dim;
    team.for_each((heads + cache.kv_heads) * half, [&](std::int64_t i) {
      const auto head = static_cast<std::int32_t>(i / half);
      const auto e = static_cast<std::int32_t>(i % half);
      float* const from = projected + head * head_dim;
      const float a = biased(projected, head * head_dim + e);
      const float b = biased(projected, head * head_dim + e + half);
      const float first = std::fma(a, c[e], -hunch::kernel::product(b, s[e]));
      const float second = std::fma(b, c[e], hunch::kernel::product(a, s[e]));
      if (head < heads) {
        from[e] = first * scale;
        from[e + half] = second * scale;
      } else {
        hunch::bfloat16* const key =
            cache.keys + cache.run(row.slot, layer, head - heads) + cache.staged(row.id);
        key[e] = hunch::to_bfloat16(first);
        key[e + half] = hunch::to_bfloat16(second);
      }
    });
    const std::int32_t first = (heads + cache.kv_heads) * head_dim;  // of the values
    team.for_each(cache.kv_heads * head_dim, [&](std::int64_t i) {
      const auto head = static_cast<std::int32_t>(i / head_dim);
      cache.values[cache.run(row.slot, layer, head) + cache.staged(row.id) + i % head_dim] =
          hunch::to_bfloat16(biased(projected, first + i));
    });
  }

 private:
  HUNCH_HOST_DEVICE float biased(const float* projected, std::int64_t i) const {
    return bias == nullptr ? projected[i] : projected[i] + bias[i];
  }
};

}  // namespace engine::device

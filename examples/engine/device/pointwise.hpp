// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <engine/device/matrix.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What happens to rows between matrix products; one body per row.

namespace engine::device {

/// log2(e): exponentials are powers of two here.
inline constexpr float log2_e = 1.44269504f;

/// The values of a row, for sums.
struct values_of {
  const float* row;
  HUNCH_HOST_DEVICE float operator()(std::int64_t i) const { return row[i]; }
};

/// Their squares.
struct squares_of {
  const float* row;
  HUNCH_HOST_DEVICE float operator()(std::int64_t i) const {
    return hunch::kernel::product(row[i], row[i]);
  }
};

/// residual[i] = the embedding of the token of row i.
struct embed_rows {
  const planned_row* rows;
  const hunch::bfloat16* embedding;  ///< [vocab_size, width]
  std::int32_t width;
  std::int32_t size;
  float* residual;  ///< [rows, size]

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = rows[index];
    if (row.slot == hunch::no_slot) { return; }
    const hunch::bfloat16* const from = embedding + static_cast<std::int64_t>(row.token) * width;
    float* const to = residual + static_cast<std::int64_t>(index) * size;
    team.for_each(size, [=](std::int64_t i) { to[i] = hunch::to_float(from[i]); });
  }
};

/// 1 / rms(x) (Zhang and Sennrich, 2019). Collective.
template <hunch::Team T>
HUNCH_HOST_DEVICE float inverse_rms(T& team, const float* x, std::int32_t size, float epsilon) {
  const double squares = team.sum(size, squares_of{x});
  const float mean = static_cast<float>(squares / size);
  return 1.0f / std::sqrt(mean + epsilon);
}

/// to = x / rms(x) * weight; in `state`, unless that is nullptr, the same as floats. Collective.
template <hunch::Team T, class Input>
HUNCH_HOST_DEVICE void normalise(T& team, const float* x, std::int32_t size, const float* weight,
                                 float epsilon, Input* to, float* state) {
  const float scale = inverse_rms(team, x, size, epsilon);
  team.for_each(size, [=](std::int64_t i) {
    const float y = x[i] * scale * weight[i];
    put(to[i], y);
    if (state != nullptr) { put(state[i], y); }
  });
}

/// out[i] is from[i] after its norm, for the rows that `asked` says.
template <class Input>
struct normalise_rows {
  const std::uint8_t* asked;
  const float* from;  ///< [rows, size]
  std::int32_t size;
  const float* weight;  ///< [size]
  float epsilon;
  Input* out;  ///< [rows, width]
  std::int32_t width;
  float* states = nullptr;  ///< [rows, width] the same as floats, if somebody reads it

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked[index] == 0) { return; }
    const std::int64_t at = static_cast<std::int64_t>(index) * width;
    normalise(team, from + static_cast<std::int64_t>(index) * size, size, weight, epsilon, out + at,
              states == nullptr ? nullptr : states + at);
  }
};

/// Queries and keys after the norms of their heads, where they are: one body per head of a row.
struct normalise_heads {
  const std::uint8_t* asked;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  const float* query_weight;  ///< [head_dim]
  const float* key_weight;    ///< [head_dim]
  float epsilon;
  float* projections;  ///< [rows, (heads + 2 kv_heads) head_dim] queries, keys, values

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = index / (heads + kv_heads);
    const std::int32_t head = index % (heads + kv_heads);
    if (asked[row] == 0) { return; }
    float* const x =
        projections + (static_cast<std::int64_t>(row) * (heads + 2 * kv_heads) + head) * head_dim;
    const float* const weight = head < heads ? query_weight : key_weight;
    const float scale = inverse_rms(team, x, head_dim, epsilon);
    team.for_each(head_dim, [=](std::int64_t i) { x[i] = x[i] * scale * weight[i]; });
  }
};

/// The product is rounded by itself, whatever is added to it.
HUNCH_HOST_DEVICE inline float silu(float x) {
  const float e = hunch::kernel::exp2_product(x < 0.0f ? x : -x, log2_e);
  return hunch::kernel::product((x < 0.0f ? e : 1.0f) / (1.0f + e), x);
}

/// out[i] = silu(gate) * up for the gates and ups of row i.
template <class Input>
struct gate_rows {
  const std::uint8_t* asked;
  const float* gates;  ///< [rows, 2 size] the gates, then the ups
  std::int32_t size;
  Input* out;  ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked[index] == 0) { return; }
    const float* const gate = gates + static_cast<std::int64_t>(index) * 2 * size;
    const float* const up = gate + size;
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    team.for_each(size, [=](std::int64_t i) { put(to[i], silu(gate[i]) * up[i]); });
  }
};

/// out[i] = silu(from[i]), with zeros behind: other products use the same memory.
template <class Input>
struct silu_rows {
  const std::uint8_t* asked;
  const float* from;  ///< [rows, size]
  std::int32_t size;
  Input* out;  ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked[index] == 0) { return; }
    const float* const x = from + static_cast<std::int64_t>(index) * size;
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    const std::int32_t n = size;
    team.for_each(width, [=](std::int64_t i) { put(to[i], i < n ? silu(x[i]) : 0.0f); });
  }
};

}  // namespace engine::device

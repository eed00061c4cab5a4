// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <engine/device/cells.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/team/team.hpp>

namespace engine::device {

/// Positions whose values one thread adds; the sums of such blocks add in order.
inline constexpr std::int32_t mix_positions = 64;

/// Floats that the attention of one row and head needs beside its inputs.
HUNCH_HOST_DEVICE constexpr std::int64_t attention_scratch(std::int32_t max_attended,
                                                           std::int32_t head_dim) {
  const std::int64_t blocks = (max_attended + mix_positions - 1) / mix_positions;
  return max_attended + blocks * head_dim;
}

/// softmax(q K^T) V of one query head of one row, over the cache of its sequence and its path of
/// staged rows. Every sum has one order, by place in the sequence, whether a place is cached or
/// staged: so a row's result does not depend on how its text was read.
template <class Input>
struct attend_rows {
  pass_plan plan;
  cells cache;
  std::int32_t layer;
  std::int32_t heads;
  std::int32_t first_row;    ///< of this launch
  const float* projections;  ///< [rows, (heads + 2 kv_heads) head_dim] queries first, scaled
  float* scratch;            ///< [rows of this launch, heads, attention_scratch]
  Input* out;                ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t head = index % heads;
    const std::int32_t at = first_row + index / heads;
    const planned_row row = plan.rows[at];
    if (row.slot == hunch::no_slot) { return; }

    const std::int32_t head_dim = cache.head_dim;
    const std::int32_t length = row.cached + row.depth;
    const std::int64_t run = cache.run(row.slot, layer, head / (heads / cache.kv_heads));
    const hunch::bfloat16* const keys = cache.keys + run;
    const hunch::bfloat16* const values = cache.values + run;
    const std::int32_t* const path = plan.path(row.path);
    const auto cell = [&](std::int64_t place) {
      const auto j = static_cast<std::int32_t>(place);
      return j < row.cached ? cache.cached(j) : cache.staged(path[j - row.cached]);
    };
    const float* const query =
        projections + static_cast<std::int64_t>(at) * (heads + 2 * cache.kv_heads) * head_dim +
        head * head_dim;
    float* const weights = scratch + static_cast<std::int64_t>(index) *
                                         attention_scratch(cache.max_attended, head_dim);
    float* const sums = weights + cache.max_attended;

    team.for_each(length, [&](std::int64_t j) {
      const hunch::bfloat16* const key = keys + cell(j);
      float score = 0.0f;
      for (std::int32_t e = 0; e < head_dim; ++e) {
        score = std::fma(query[e], hunch::to_float(key[e]), score);
      }
      weights[j] = score;
    });
    const float top = team.reduce(
        length, -hunch::kernel::infinity<float>, [=](std::int64_t j) { return weights[j]; },
        [](float a, float b) { return a > b ? a : b; });
    team.for_each(length, [=](std::int64_t j) {
      weights[j] = hunch::kernel::exp2_product(weights[j] - top, log2_e);
    });
    const auto total = static_cast<float>(team.sum(length, values_of{weights}));

    const std::int32_t blocks = (length + mix_positions - 1) / mix_positions;
    team.for_each(static_cast<std::int64_t>(blocks) * head_dim, [&](std::int64_t i) {
      const std::int64_t begin = i / head_dim * mix_positions;
      const std::int64_t end = begin + mix_positions < length ? begin + mix_positions : length;
      float sum = 0.0f;
      for (std::int64_t j = begin; j < end; ++j) {
        sum = std::fma(weights[j], hunch::to_float(values[cell(j) + i % head_dim]), sum);
      }
      sums[i] = sum;
    });
    Input* const mixed = out + static_cast<std::int64_t>(at) * width + head * head_dim;
    team.for_each(head_dim, [=](std::int64_t e) {
      float sum = 0.0f;
      for (std::int32_t b = 0; b < blocks; ++b) { sum += sums[b * head_dim + e]; }
      put(mixed[e], sum / total);
    });
  }
};

}  // namespace engine::device

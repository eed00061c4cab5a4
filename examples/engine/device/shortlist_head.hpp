// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/matrix.hpp>
#include <hunch/bfloat16.hpp>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace engine::device {

/// Copies the row of a token to row `index` of a head in another order.
struct permute_head {
  matrix from;                    ///< [vocab_size, width] in token order
  const hunch::token* row_token;  ///< [head rows]
  hunch::bfloat16* to;            ///< [head rows, width]

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int64_t width = from.width;
    const hunch::bfloat16* const row = from.data + row_token[index] * width;
    hunch::bfloat16* const out = to + index * width;
    team.for_each(width, [=](std::int64_t i) { out[i] = row[i]; });
  }
};

/// Positions of a shortlist that one body works on.
inline constexpr std::int32_t head_part_rows = 128;

/// The logits of part `index % parts` of the shortlist of head row `index / parts`.
struct shortlist_part {
  hunch::head_rows<float> asked;
  hunch::kernel::head_weights<hunch::bfloat16> weights;
  const float* hidden;  ///< [rows of the pass, weights.width]
  std::int32_t parts;   ///< of the longest list

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t which = index / parts;
    const std::int32_t row = asked.row[which];
    if (row < 0) { return; }
    const hunch::shortlist list = asked.lists[which];
    const std::int32_t first = index % parts * head_part_rows;
    const std::int32_t end = first + head_part_rows;
    const float* const state = hidden + static_cast<std::int64_t>(row) * weights.width;
    float* const logits = asked.logits[which].data;
    std::int32_t before = 0;  // positions in earlier ranges
    for (std::int32_t r = 0; r < list.range_count && before < end; ++r) {
      const hunch::row_range range = list.ranges[r];
      const std::int32_t length = range.end - range.begin;
      const std::int32_t from = first > before ? first - before : 0;
      const std::int32_t to = end - before < length ? end - before : length;
      if (from < to) {
        const hunch::row_range mine{range.begin + from, range.begin + to};
        const hunch::shortlist part{&mine, 1, to - from};
        hunch::kernel::range_gemv(team, weights, part, state,
                                  hunch::row_view<float>{logits + before + from, to - from});
      }
      before += length;
    }
  }
};

}  // namespace engine::device

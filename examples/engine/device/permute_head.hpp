// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/matrix.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/types.hpp>
#include <hunch/team/team.hpp>

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

}  // namespace engine::device

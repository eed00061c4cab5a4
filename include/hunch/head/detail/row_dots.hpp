// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/range_gemv.hpp>

namespace hunch::kernel {

/// use(i, row first + i of `head` . x, without the row's scale) for i in [0, count), by a worker:
/// on one of its lanes each, the same bits on all workers.
///
/// \param x [head.width] float.
template <class Worker, class Weight, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void row_dots(Worker& worker, const head_weights<Weight>& head,
                                             std::int32_t first, std::int32_t count, const float* x,
                                             const Use& use) {
  if constexpr (Worker::lanes == 1) {
    const head_weights<Weight> plain{.data = head.data, .rows = head.rows, .width = head.width};
    for (std::int32_t i = 0; i < count; i += gemv_rows) {
      const std::int32_t rows = count - i < gemv_rows ? count - i : gemv_rows;
      float sums[gemv_rows];
      detail::no_rows_ahead ahead;
      detail::logits_of(plain, first + i, rows, x, ahead, sums);
      for (std::int32_t r = 0; r < rows; ++r) { use(i + r, sums[r]); }
    }
  } else {
    // As many rows at a time as the worker has sixteen lanes.
    constexpr std::int32_t lanes = detail::gemv_lanes;
    for (std::int32_t i = 0; i < count; i += Worker::lanes / lanes) {
      typename Worker::template per_lane<float> sum;
      worker.each(
          [&](std::int32_t lane, float& mine) {
            const std::int32_t row = i + lane / lanes;
            mine = row < count
                       ? detail::dot_lane(head.row(first + row), head.width, x, lane % lanes)
                       : 0.0f;
          },
          sum);
      worker.fold_halves(sum);
      worker.each(
          [&](std::int32_t lane, float& mine) {
            const std::int32_t row = i + lane / lanes;
            if (lane % lanes == 0 && row < count) { use(row, mine); }
          },
          sum);
    }
  }
}

}  // namespace hunch::kernel

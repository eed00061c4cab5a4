// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/shortlist_head.hpp>
#include <hunch/bfloat16.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/kernel/range_gemv.hpp>
#include <hunch/rows.hpp>

namespace bench::device {

/// Enqueues the draft head: of every hidden state that `asked` names the logits over its list.
/// \param asked its arrays are in the device's memory.
/// \param hidden [states, weights.width]
inline void launch_head(hunch::executor::cuda& executor,
                        const hunch::kernel::head_weights<hunch::bfloat16>& weights,
                        const hunch::head_rows<float>& asked, const float* hidden) {
  using engine::device::head_part_rows;
  const std::int32_t parts = (weights.rows + head_part_rows - 1) / head_part_rows;
  executor.launch(asked.size * parts,
                  engine::device::shortlist_part{asked, weights, hidden, parts});
}

}  // namespace bench::device

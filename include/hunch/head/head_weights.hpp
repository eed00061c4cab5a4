// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

namespace hunch::kernel {

/// The weights of a draft head, [rows, width] row-major in the order of its `vocab_layout`; a view.
/// Tensor cores are fed faster where each row begins at a multiple of 16 bytes.
/// \tparam Weight float, bfloat16, float16 or std::int8_t.
template <class Weight>
struct head_weights {
  const Weight* data = nullptr;
  std::int32_t rows = 0;
  std::int32_t width = 0;
  const float* row_scale = nullptr;  ///< [rows] factor of each row's logit, or nullptr

  HUNCH_HOST_DEVICE const Weight* row(std::int32_t r) const {
    return data + static_cast<std::int64_t>(r) * width;
  }
};

}  // namespace hunch::kernel

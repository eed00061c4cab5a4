// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>

namespace engine::device {

/// Rows of what products read are padded with zeros to a multiple of so many elements: whole steps
/// of a dot product, and the alignment that tensor cores want.
inline constexpr std::int32_t width_unit = 32;

HUNCH_HOST_DEVICE constexpr std::int32_t padded(std::int32_t size) {
  return (size + width_unit - 1) / width_unit * width_unit;
}

/// Weights [outputs, width], row-major; a view.
struct matrix {
  const hunch::bfloat16* data = nullptr;
  std::int32_t outputs = 0;
  std::int32_t width = 0;  ///< inputs, padded
};

/// Rounds an input of a product to bfloat16, whether it is stored as one or as the same float.
HUNCH_HOST_DEVICE inline void put(hunch::bfloat16& to, float x) { to = hunch::to_bfloat16(x); }
HUNCH_HOST_DEVICE inline void put(float& to, float x) {
  to = hunch::to_float(hunch::to_bfloat16(x));
}

}  // namespace engine::device

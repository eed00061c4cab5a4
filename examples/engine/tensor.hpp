// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <engine/bfloat16.hpp>

/// \file
/// What a checkpoint holds.

namespace engine {

enum class dtype { f32, f16, bf16, i8, i32, i64, boolean };

constexpr std::size_t size_of(dtype type) {
  switch (type) {
    case dtype::i64:
      return 8;
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::f16:
    case dtype::bf16:
      return 2;
    case dtype::i8:
    case dtype::boolean:
      return 1;
  }
  return 0;
}

/// Whether a matrix may be of it.
constexpr bool is_weight(dtype type) { return type <= dtype::i8; }
/// Whether a vector may be.
constexpr bool is_float(dtype type) { return type <= dtype::bf16; }

constexpr const char* to_string(dtype type) {
  switch (type) {
    case dtype::f32:
      return "F32";
    case dtype::f16:
      return "F16";
    case dtype::bf16:
      return "BF16";
    case dtype::i8:
      return "I8";
    case dtype::i32:
      return "I32";
    case dtype::i64:
      return "I64";
    case dtype::boolean:
      return "BOOL";
  }
  return "unknown";
}

/// A dense row-major tensor in somebody else's memory, which need not be aligned.
struct tensor_view {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
};

/// A matrix of weights: [rows, columns] values, times `scale[row]` where there are scales.
struct matrix_view {
  dtype type = dtype::f32;
  int rows = 0;
  int columns = 0;
  const std::byte* data = nullptr;
  const std::byte* scale = nullptr;  ///< [rows] F32, or nullptr

  /// Writes row `row` to `out` [columns], without its scale.
  void read_row(int row, float* out) const {
    const std::byte* p =
        data + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) * size_of(type);
    for (int i = 0; i < columns; ++i, p += size_of(type)) {
      if (type == dtype::f32) {
        std::memcpy(out + i, p, 4);
      } else if (type == dtype::i8) {
        out[i] = static_cast<float>(static_cast<std::int8_t>(*p));
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, p, 2);
        out[i] = type == dtype::bf16 ? from_bf16(bits) : from_f16(bits);
      }
    }
  }

  float scale_of(int row) const {
    float value = 1.0f;
    if (scale != nullptr) { std::memcpy(&value, scale + 4 * static_cast<std::size_t>(row), 4); }
    return value;
  }
};

}  // namespace engine

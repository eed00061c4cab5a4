// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <engine/into.hpp>
#include <engine/packed_matrix.hpp>

/// \file
/// Rows of activations times packed weights.

namespace engine {

/// Rows of inputs of a matrix product: f32, or what `store_activations` makes of them.
struct activation_view {
  std::byte* data = nullptr;
  std::size_t row_bytes = 0;

  std::byte* row(int i) const { return data + static_cast<std::size_t>(i) * row_bytes; }
};

/// Whether products of this arithmetic read activations in a form of their own, and not floats.
constexpr bool converts_activations(arithmetic kind) {
  return kind != arithmetic::f32 && kind != arithmetic::bf16_fma;
}

/// The bytes of one row of `inputs` activations, padded to a cache line.
std::size_t activation_bytes(arithmetic kind, int inputs);

/// Writes a row of `padded` activations, a multiple of 16 whose last ones are zeros.
void store_activations(arithmetic kind, const float* values, int padded, std::byte* row);

/// y[r][o] (+)= sum over k of w[o][k] x[r][k], times the scale of o, for the rows r in [0, rows)
/// and the outputs o of blocks [first_block, last_block). Rows of y are `y_stride` floats apart
/// and have room for a multiple of 16 outputs.
///
/// The sum of an output runs over k in ascending order whatever `rows` is: a row's result is
/// bitwise the same alone and among others.
void multiply(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t y_stride,
              int rows, into mode, int first_block, int last_block);

}  // namespace engine

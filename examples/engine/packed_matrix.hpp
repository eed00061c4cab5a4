// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/simd.hpp>
#include <engine/tensor.hpp>

/// \file
/// Weights in the order in which the kernels read them.
///
/// A tile is 16 outputs, one per lane; four tiles make a block; a block is stored step by step:
/// for every step of the inner dimension its four registers, one after the other. So a matrix is
/// one sequential stream, four accumulators hide the latency of the multiply-add when there is
/// only one row, and an output is a sum in ascending order of k in its own lane: no horizontal
/// sums, and no order that depends on how many rows are multiplied at once.

namespace engine {

/// How products are formed.
enum class arithmetic {
  f32,       ///< f32 weights, f32 activations
  bf16_fma,  ///< bf16 weights widened to f32, f32 activations
  bf16_dot,  ///< bf16 weights, activations rounded to bf16, f32 sums (needs AVX512-BF16)
};

/// Whether this build and this machine can do `bf16_dot`.
bool has_bf16_dot();

/// The faster bf16 arithmetic of this machine. Where a dot product instruction does the work of
/// two multiply-adds and runs as often (AMD) it is `bf16_dot`. Intel's runs at a quarter of the
/// rate (measured: 43 against 88 G multiply-adds/s per core), so there it is `bf16_fma`.
arithmetic preferred_bf16();

inline constexpr int tiles_per_block = 4;
inline constexpr int outputs_per_block = tiles_per_block * lanes;

/// An output of a packed matrix: a row of a checkpoint's matrix, or zeros.
struct weight_row {
  const matrix_view* source = nullptr;
  int row = 0;
};

inline void append_rows(std::vector<weight_row>& to, const matrix_view& from) {
  for (int row = 0; row < from.rows; ++row) { to.push_back({&from, row}); }
}

inline std::vector<weight_row> all_rows(const matrix_view& from) {
  std::vector<weight_row> out;
  append_rows(out, from);
  return out;
}

/// A packed [outputs, inputs] matrix; the values live in memory that somebody else owns.
class packed_matrix {
 public:
  packed_matrix() = default;

  /// The bytes that `packed_matrix` will need at `where`, a multiple of 64.
  static std::size_t bytes(arithmetic kind, int outputs, int inputs);

  /// Packs `rows`, all with `inputs` columns, to `where`, aligned to 64 bytes. I8 weights stay
  /// integers, which bf16 holds exactly, and are scaled after the sum; in f32 they are scaled here.
  packed_matrix(arithmetic kind, const std::vector<weight_row>& rows, int inputs, std::byte* where);

  arithmetic kind() const { return kind_; }
  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  int tiles() const { return (outputs_ + lanes - 1) / lanes; }
  int blocks() const { return (outputs_ + outputs_per_block - 1) / outputs_per_block; }
  /// Steps of the inner dimension: pairs for bf16, single values for f32.
  int steps() const { return kind_ == arithmetic::f32 ? inputs_ : (inputs_ + 1) / 2; }
  const std::byte* data() const { return data_; }
  /// [tiles * 16] or nullptr.
  const float* scale() const { return scale_.empty() ? nullptr : scale_.data(); }

  /// Writes the stored values of row `output`, without its scale, to `out` [inputs].
  void read_row(int output, float* out) const;

 private:
  std::size_t offset(int output, int k) const;

  arithmetic kind_ = arithmetic::f32;
  int outputs_ = 0;
  int inputs_ = 0;
  std::byte* data_ = nullptr;
  std::vector<float> scale_;
};

/// A packed matrix with its memory.
struct stored_matrix {
  stored_matrix() = default;
  stored_matrix(arithmetic kind, const std::vector<weight_row>& rows, int inputs)
      : bytes(packed_matrix::bytes(kind, static_cast<int>(rows.size()), inputs)),
        packed(kind, rows, inputs, bytes.data()) {}

  aligned_buffer<std::byte> bytes;
  packed_matrix packed;
};

}  // namespace engine

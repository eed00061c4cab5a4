// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/quantised_group.hpp>
#include <engine/simd.hpp>
#include <engine/tensor.hpp>

/// \file
/// Weights in the order in which the kernels read them.
///
/// A tile is 16 outputs, one per lane; four tiles make a block; a block is stored step by step:
/// for every step of the inner dimension the registers of its tiles, one after the other. So a
/// matrix is one sequential stream, four accumulators hide the latency of the multiply-add when
/// there is only one row, and an output is a sum in ascending order of k in its own lane: no
/// horizontal sums, and no order that depends on how many rows are multiplied at once.

namespace engine {

/// How products are formed.
enum class arithmetic {
  f32,       ///< f32 weights, f32 activations
  bf16_fma,  ///< bf16 weights widened to f32, f32 activations
  bf16_dot,  ///< bf16 weights, activations rounded to bf16, f32 sums (needs AVX512-BF16)
  /// Weights as bytes with a f32 scale per output, activations as bytes with a scale per group of
  /// 32; integer sums in a group, f32 sums of groups. An I8 checkpoint's weights are exact.
  int8,
  /// Groups of 32 weights as 4-bit integers with a bf16 scale, activations as bytes with a scale
  /// per group; integer sums in a group, f32 sums of groups. For a copy of a model that drafts for
  /// it.
  int4,
};

/// Whether this build and this machine can do `bf16_dot`.
bool has_bf16_dot();

/// The faster bf16 arithmetic of this machine. Where a dot product instruction does the work of
/// two multiply-adds and runs as often (AMD) it is `bf16_dot`. Intel's runs at a quarter of the
/// rate (measured: 43 against 88 G multiply-adds/s per core), so there it is `bf16_fma`.
arithmetic preferred_bf16();

inline constexpr int tiles_per_block = 4;
inline constexpr int outputs_per_block = tiles_per_block * lanes;

/// Inputs of a step of the inner dimension.
constexpr int step_inputs(arithmetic kind) {
  switch (kind) {
    case arithmetic::f32:
      return 1;
    case arithmetic::bf16_fma:
    case arithmetic::bf16_dot:
      return 2;
    case arithmetic::int8:
    case arithmetic::int4:
      return group_size;
  }
  return 0;
}

/// The bytes of a tile in a step: a register, or as many as a group has.
constexpr int tile_bytes(arithmetic kind) {
  return kind == arithmetic::int8 ? 512 : kind == arithmetic::int4 ? 256 : 64;
}

/// The bytes of a step of a block of `tiles` tiles: theirs; in `int4` then 16 scales of each, and
/// nothing to the next line.
constexpr int step_bytes(arithmetic kind, int tiles) {
  const int scales = kind == arithmetic::int4 ? round_up(tiles * 32, 64) : 0;
  return tiles * tile_bytes(kind) + scales;
}

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
  /// integers, which bf16 holds exactly, and are scaled after the sum, like all in int8; in f32 and
  /// int4 they are scaled here.
  packed_matrix(arithmetic kind, const std::vector<weight_row>& rows, int inputs, std::byte* where);

  arithmetic kind() const { return kind_; }
  int outputs() const { return outputs_; }
  int inputs() const { return inputs_; }
  int tiles() const { return (outputs_ + lanes - 1) / lanes; }
  int blocks() const { return (outputs_ + outputs_per_block - 1) / outputs_per_block; }
  /// Steps of the inner dimension.
  int steps() const { return (inputs_ + step_inputs(kind_) - 1) / step_inputs(kind_); }
  const std::byte* data() const { return data_; }
  /// [tiles * 16] or nullptr.
  const float* scale() const { return scale_.empty() ? nullptr : scale_.data(); }

  /// Writes the stored values of row `output`, without its scale, to `out` [inputs].
  void read_row(int output, float* out) const;

 private:
  int tiles_in(int block) const {
    const int rest = tiles() - block * tiles_per_block;
    return rest < tiles_per_block ? rest : tiles_per_block;
  }
  /// Where an output is in the first step, in `int4` its scale, and how far it is to the next.
  struct places {
    std::byte* lane;
    std::byte* scale;
    std::ptrdiff_t step;
  };
  places places_of(int output) const;
  void put_row(int output, const float* values);

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

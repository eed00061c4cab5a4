// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/pool_executor.hpp>
#include <engine/tensor.hpp>
#include <engine/thread_pool.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// Where the rows of a head come from: [outputs, inputs] values, and a factor per row or none.
class head_source {
 public:
  head_source(const packed_matrix& from)
      : packed_{&from},
        type_{from.kind() == arithmetic::f32 ? dtype::f32
              : from.scale() != nullptr      ? dtype::i8
                                             : dtype::bf16},
        inputs_{from.inputs()} {}
  head_source(const matrix_view& from)
      : stored_{&from},
        type_{from.type == dtype::i8 ? dtype::i8 : dtype::bf16},
        inputs_{from.columns} {}

  /// What holds a value: f32, bf16, or i8 with a factor per row.
  dtype type() const { return type_; }
  int inputs() const { return inputs_; }
  float scale_of(int row) const {
    return packed_ == nullptr ? stored_->scale_of(row) : packed_->scale()[row];
  }
  void read_row(int row, float* out) const {
    packed_ == nullptr ? stored_->read_row(row, out) : packed_->read_row(row, out);
  }

 private:
  const packed_matrix* packed_ = nullptr;
  const matrix_view* stored_ = nullptr;
  dtype type_;
  int inputs_;
};

/// `hunch::head_fingerprint` of the first `rows` rows: the same for all copies of a checkpoint's
/// head, however they hold its values. \param tokens of the rows; nullptr: 0, 1, ...
std::uint64_t head_fingerprint(const head_source& head, int rows,
                               const hunch::vocab_layout* tokens = nullptr);

/// A head that is asked for parts of itself: row-major, in the order of a `hunch::vocab_layout`,
/// so that what a shortlist names is contiguous, and multiplied by `hunch::shortlist_head`.
/// Integers with a scale per row stay bytes, for this is read once per step, and no step reads it
/// twice.
class draft_head {
 public:
  /// Copies the rows of `head` in the order of `layout`. The pool outlives it.
  /// \param tokens of the rows of `head`; nullptr: 0, 1, ...
  /// \throws std::invalid_argument for a token of the layout that has no row.
  draft_head(const head_source& head, const hunch::vocab_layout& layout, thread_pool& pool,
             const hunch::vocab_layout* tokens = nullptr);

  std::uint64_t order() const { return order_; }
  int rows() const { return rows_; }

  /// logits[i] = rows lists[i] of the head . hidden row row[i]. Bitwise the same whatever else is
  /// asked for and however many threads the pool has.
  ///
  /// \param hidden [rows, stride], a row padded with zeros to a multiple of 16.
  /// \throws std::invalid_argument if a view's size is not its list's, or a range leaves the head.
  void multiply(const float* hidden, int stride, const hunch::head_rows<float>& asked);

 private:
  template <class Weight>
  struct stored {
    aligned_buffer<Weight> weights;  ///< [rows, width]
    hunch::shortlist_head<pool_executor, Weight> product;
  };
  using any_stored = std::variant<stored<float>, stored<hunch::bfloat16>, stored<std::int8_t>>;

  draft_head(const head_source& head, std::uint64_t order, const std::vector<int>& rows,
             thread_pool& pool);
  template <class Weight, class Narrow>
  any_stored store(const head_source& head, const std::vector<int>& rows, Narrow narrow);

  std::uint64_t order_;
  int rows_;
  int width_;  ///< inputs, padded with zero weights to a multiple of 16
  pool_executor executor_;
  std::vector<float> scale_;  ///< [rows] or empty
  any_stored stored_;
};

}  // namespace engine

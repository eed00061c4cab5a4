// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/pool_executor.hpp>
#include <engine/thread_pool.hpp>
#include <hunch/bfloat16.hpp>
#include <hunch/rows.hpp>
#include <hunch/shortlist_head.hpp>
#include <hunch/vocab_layout.hpp>

namespace engine {

/// A head that is asked for parts of itself: row-major, in the order of a `hunch::vocab_layout`,
/// so that what a shortlist names is contiguous, and multiplied by `hunch::shortlist_head`.
/// Integers with a scale per row stay bytes, for this is read once per step, and no step reads it
/// twice; 4-bit integers with a scale per group become such bytes.
class draft_head {
 public:
  /// Copies the rows of `head` in the order of `layout`. The pool outlives it.
  draft_head(const packed_matrix& head, const hunch::vocab_layout& layout, thread_pool& pool);

  std::uint64_t fingerprint() const { return fingerprint_; }
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

  /// \param narrow writes the values of a row as weights, and notes its scale if it has one.
  template <class Weight, class Narrow>
  any_stored store(const packed_matrix& head, const hunch::vocab_layout& layout, Narrow narrow);
  any_stored store(const packed_matrix& head, const hunch::vocab_layout& layout);

  std::uint64_t fingerprint_;
  int rows_;
  int width_;  ///< inputs, padded with zero weights to a multiple of 16
  pool_executor executor_;
  std::vector<float> scale_;  ///< [rows] or empty
  any_stored stored_;
};

}  // namespace engine

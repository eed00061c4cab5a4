// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/bfloat16.hpp>
#include <hunch/rows.hpp>
#include <hunch/vocab_layout.hpp>

namespace engine {

/// A head that is asked for parts of itself: row-major, in the order of a `hunch::vocab_layout`,
/// so that what a shortlist names is contiguous. Integers with a scale per row stay bytes, for this
/// is read once per drafted token, and no step reads it twice.
class draft_head {
 public:
  /// Copies the rows of `head` in the order of `layout`.
  draft_head(const packed_matrix& head, const hunch::vocab_layout& layout);

  std::uint64_t fingerprint() const { return fingerprint_; }
  int rows() const { return rows_; }

  /// logits[i] = weights of position i of the list . hidden, for the positions that fall to
  /// `thread` of `threads`. hidden: [inputs, padded with zeros to a multiple of 16].
  void multiply(int thread, int threads, const float* hidden, const hunch::shortlist& list,
                hunch::row_view<float> logits) const;

 private:
  std::uint64_t fingerprint_;
  enum class stored { f32, bf16, i8 } stored_;
  int rows_;
  int width_;  ///< inputs, padded with zero weights to a multiple of 16
  aligned_buffer<float> f32_weights_;
  aligned_buffer<hunch::bfloat16> bf16_weights_;
  aligned_buffer<std::int8_t> i8_weights_;
  std::vector<float> scale_;  ///< [rows] or empty
};

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/draft_head.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/tensors.hpp>

namespace engine {

/// 16 gates, then their 16 ups, and so on, each padded with zeros.
std::vector<weight_row> interleave(const matrix_view& gate, const matrix_view& up);

/// One transformer layer. Norms are padded with zeros to a multiple of 16.
struct layer_weights {
  std::vector<float> attention_norm;
  packed_matrix query_key_value;            ///< [(heads + 2 kv_heads) head_dim, hidden]
  std::vector<float> query_key_value_bias;  ///< padded likewise, or empty
  packed_matrix output;                     ///< [hidden, heads head_dim]
  std::vector<float> mlp_norm;
  packed_matrix gate_up;  ///< [2 intermediate, hidden], 16 gates, then their 16 ups, and so on
  packed_matrix down;     ///< [hidden, intermediate]
};

/// All weights of a model, packed in the order of their use into one run of memory: where a matrix
/// ends, the prefetcher is already in the next one.
class model_weights {
 public:
  /// \throws std::runtime_error naming the tensor that is missing or has a wrong shape or dtype.
  model_weights(const config& shape, const checkpoint& source, arithmetic kind);

  const std::vector<layer_weights>& layers() const { return layers_; }
  const std::vector<float>& final_norm() const { return final_norm_; }
  const packed_matrix& head() const { return head_; }
  /// What a head over shortlists is made of: where 4-bit integers make the layers small, it keeps
  /// the values of the checkpoint.
  head_source listed_head() const {
    return kind_ == arithmetic::int4 ? head_source{stored_head()} : head_source{head_};
  }
  /// [hidden, 2 hidden] what an EAGLE head makes its input with; no outputs in other models.
  const packed_matrix& joint() const { return joint_; }

  /// Writes the embedding of `token` to `out` [hidden].
  void embed(int token, float* out) const;

  /// The bytes that a decode step of one row reads.
  std::size_t bytes() const { return arena_.size(); }

 private:
  /// A matrix of the checkpoint, which may be closed, as it is.
  struct kept_matrix {
    explicit kept_matrix(const matrix_view& from);
    kept_matrix() = default;

    matrix_view view;
    aligned_buffer<std::byte> bytes;
    aligned_buffer<std::byte> scale;
  };

  const matrix_view& stored_head() const {
    return own_head_.view.data == nullptr ? embedding_.view : own_head_.view;
  }
  packed_matrix pack(const std::vector<weight_row>& rows, int inputs);

  arithmetic kind_;
  aligned_buffer<std::byte> arena_;
  std::size_t used_ = 0;
  std::vector<layer_weights> layers_;
  std::vector<float> final_norm_;
  packed_matrix head_;
  packed_matrix joint_;
  kept_matrix embedding_;
  kept_matrix own_head_;  ///< of an `int4` model whose head is not its embedding
};

}  // namespace engine

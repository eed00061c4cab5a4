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
  std::vector<float> attention_norm;        ///< empty if there is none
  packed_matrix query_key_value;            ///< [(heads + 2 kv_heads) head_dim, `attention_inputs`]
  std::vector<float> query_key_value_bias;  ///< padded likewise, or empty
  std::vector<float> query_norm;            ///< [head_dim] of each head, or empty
  std::vector<float> key_norm;              ///< likewise
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
  /// Empty if there is none.
  const std::vector<float>& final_norm() const { return final_norm_; }
  const packed_matrix& head() const { return head_; }
  /// What a head over shortlists is made of: where 4-bit integers make the layers small, it keeps
  /// the values of the checkpoint.
  head_source listed_head() const {
    return kind_ == arithmetic::int4 ? head_source{stored_head()} : head_source{head_};
  }
  /// What tells this head from others, whatever arithmetic its copies have.
  head_source known_head() const {
    return keeps_head(kind_) ? head_source{stored_head()} : head_source{head_};
  }
  /// [hidden, `joint_inputs`] what an EAGLE head makes its rows with; no outputs in other models.
  const packed_matrix& joint() const { return joint_; }
  /// [hidden] added to that, or empty.
  const std::vector<float>& joint_bias() const { return joint_bias_; }
  /// Of the embeddings that an EAGLE-3 head's attention reads, or "fc" of a head that norms its
  /// inputs, and of the states there; else empty.
  const std::vector<float>& embedding_norm() const { return embedding_norm_; }
  const std::vector<float>& state_norm() const { return state_norm_; }
  /// [feature_width] of what an EAGLE-3 head reads of its target, one norm after the other, or
  /// empty.
  const std::vector<float>& feature_norms() const { return feature_norms_; }

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

  /// Whether integers stand for the head's values, so that the checkpoint's are kept.
  static bool keeps_head(arithmetic kind) {
    return kind == arithmetic::int8 || kind == arithmetic::int4;
  }
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
  std::vector<float> joint_bias_;
  std::vector<float> embedding_norm_;
  std::vector<float> state_norm_;
  std::vector<float> feature_norms_;
  kept_matrix embedding_;
  kept_matrix own_head_;  ///< if it is kept and not the embedding
};

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/drafted_states.hpp>
#include <engine/model.hpp>
#include <engine/own_head.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// Heads on a target's last hidden state h, which outlives them: head j reads h + silu(W_j h) to
/// the target's language-model head, or, as published, h + silu(W_j h + b_j) to one of its own (Cai
/// et al. 2024, arXiv:2401.10774). Embedding, threads and arithmetic are the target's.
///
/// A row of states is bitwise the same alone and among others, with any number of threads.
class medusa_heads {
 public:
  /// \param weights "medusa.<j>.weight" [hidden, hidden] for every head j, "medusa.<j>.bias"
  /// [hidden]
  ///        for all or for none, and with own heads "heads.<j>.weight" [vocab_size, hidden].
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if
  ///         there are no heads or the target's sizes are others.
  medusa_heads(const medusa_config& shape, const checkpoint& weights, model& target);

  /// Reads `config.json` and the safetensors files of a directory: this project's, or as others
  /// publish them ("<j>.0.linear" and, of heads with a matrix of their own, "<j>.1", with or
  /// without "medusa_head." in front).
  /// \throws std::runtime_error also with what the directory looks like where these are no such
  /// heads.
  static medusa_heads load(const std::filesystem::path& directory, model& target);

  std::int32_t vocab_size() const { return shape_.vocab_size; }
  std::int32_t hidden_size() const { return shape_.hidden; }
  std::int32_t heads() const { return shape_.heads; }
  std::int32_t context_width() const { return shape_.hidden; }

  /// \throws std::out_of_range for tokens outside the vocabulary.
  drafted_states forward(const hunch::head_inputs& inputs);

  /// The order of the head over shortlists: of the target's one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;

  /// Writes the logits of the listed rows over their shortlists. Throws like `model::head`.
  void head(const drafted_states& states, const hunch::head_rows<float>& rows);

 private:
  void compute(const hunch::head_inputs& inputs, int thread);

  medusa_config shape_;
  model::implementation* of_;
  std::vector<own_head> own_;  ///< [heads], or empty where the target's is read
  int stride_;
  stored_matrix weights_;         ///< [heads * stride, hidden], padded with zeros
  std::vector<float> biases_;     ///< [heads * stride] likewise, or empty
  aligned_buffer<float> inputs_;  ///< [inputs, stride]
  aligned_buffer<float> states_;  ///< [inputs, heads, stride]
};

static_assert(hunch::DraftHeads<medusa_heads>);

}  // namespace engine

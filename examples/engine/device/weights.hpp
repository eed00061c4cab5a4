// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <engine/bfloat16.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/matrix.hpp>
#include <engine/rope.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine::device {

/// Values of T in resident memory, uploaded once.
template <class T, hunch::ResidentExecutor Executor>
typename Executor::template resident<T> uploaded(Executor& executor, const std::vector<T>& values) {
  typename Executor::template resident<T> out(executor, values.size());
  executor.upload(out.data(), values.data(), values.size());
  return out;
}

/// The rows of several matrices, one below the other, as bfloat16; integers are multiplied by
/// their scales.
class host_matrix {
 public:
  explicit host_matrix(std::initializer_list<matrix_view> parts) {
    for (const matrix_view& part : parts) {
      width_ = padded(part.columns);
      for (int row = 0; row < part.rows; ++row) { append(part, row); }
    }
  }
  /// The rows of `head` in the order of a layout.
  host_matrix(const matrix_view& head, const hunch::vocab_layout& layout)
      : width_(padded(head.columns)) {
    for (int row = 0; row < layout.head_rows(); ++row) {
      append(head, layout.row_token() == nullptr ? row : layout.row_token()[row]);
    }
  }

  const std::vector<hunch::bfloat16>& values() const { return values_; }

 private:
  void append(const matrix_view& from, int row) {
    line_.resize(static_cast<std::size_t>(from.columns));
    from.read_row(row, line_.data());
    const float scale = from.scale_of(row);
    for (const float value : line_) { values_.push_back({to_bf16(value * scale)}); }
    values_.resize(values_.size() + static_cast<std::size_t>(width_ - from.columns));
  }

  std::int32_t width_ = 0;
  std::vector<float> line_;
  std::vector<hunch::bfloat16> values_;
};

/// All weights of a model as bfloat16 in resident memory; norms and rotations are float.
template <hunch::ResidentExecutor Executor>
class model_weights {
 public:
  template <class T>
  using buffer = typename Executor::template resident<T>;

  struct layer {
    buffer<float> attention_norm;           ///< [hidden]
    buffer<hunch::bfloat16> queries_etc;    ///< [(heads + 2 kv_heads) head_dim, hidden]
    buffer<hunch::bfloat16> output;         ///< [hidden, heads head_dim]
    buffer<float> mlp_norm;                 ///< [hidden]
    buffer<hunch::bfloat16> gates_and_ups;  ///< [2 intermediate, hidden]
    buffer<hunch::bfloat16> down;           ///< [hidden, intermediate]
  };

  /// \throws std::runtime_error naming the tensor that is missing or has a wrong shape or dtype.
  model_weights(Executor& executor, const config& c, const checkpoint& source, int context)
      : shape_(c),
        embedding_(uploaded(
            executor,
            host_matrix{view(source, "model.embed_tokens", c.vocab_size, c.hidden)}.values())),
        head_(uploaded(executor, c.tied_head ? std::vector<hunch::bfloat16>{}
                                             : host_matrix{head_view(c, source)}.values())),
        final_norm_(uploaded(executor, source.vector("model.norm.weight", c.hidden))),
        cosine_(uploaded(executor, rope(c.rope, c.head_dim, context).cosine())),
        sine_(uploaded(executor, rope(c.rope, c.head_dim, context).sine())) {
    for (int l = 0; l < c.layers; ++l) { layers_.push_back(read_layer(executor, source, l)); }
  }

  const std::vector<layer>& layers() const { return layers_; }
  const float* final_norm() const { return final_norm_.data(); }
  const float* cosine() const { return cosine_.data(); }
  const float* sine() const { return sine_.data(); }

  matrix queries_etc(const layer& l) const {
    return {l.queries_etc.data(), (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim,
            padded(shape_.hidden)};
  }
  matrix output(const layer& l) const {
    return {l.output.data(), shape_.hidden, padded(shape_.heads * shape_.head_dim)};
  }
  matrix gates_and_ups(const layer& l) const {
    return {l.gates_and_ups.data(), 2 * shape_.intermediate, padded(shape_.hidden)};
  }
  matrix down(const layer& l) const {
    return {l.down.data(), shape_.hidden, padded(shape_.intermediate)};
  }
  matrix embedding() const { return {embedding_.data(), shape_.vocab_size, padded(shape_.hidden)}; }
  matrix head() const {
    return shape_.tied_head ? embedding()
                            : matrix{head_.data(), shape_.vocab_size, padded(shape_.hidden)};
  }

  static matrix_view head_view(const config& c, const checkpoint& source) {
    return view(source, c.tied_head ? "model.embed_tokens" : "lm_head", c.vocab_size, c.hidden);
  }

 private:
  static matrix_view view(const checkpoint& source, const std::string& name, int rows,
                          int columns) {
    return source.matrix(name + ".weight", rows, columns);
  }

  layer read_layer(Executor& executor, const checkpoint& source, int l) const {
    const std::string name = "model.layers." + std::to_string(l) + ".";
    const config& c = shape_;
    const int query = c.heads * c.head_dim;
    const int key_value = c.kv_heads * c.head_dim;
    const auto norm = [&](const char* part) {
      return uploaded(executor, source.vector(name + part + ".weight", c.hidden));
    };
    const auto part = [&](const char* which, int rows, int columns) {
      return view(source, name + which, rows, columns);
    };
    const auto all = [&](std::initializer_list<matrix_view> parts) {
      return uploaded(executor, host_matrix(parts).values());
    };
    return {norm("input_layernorm"),
            all({part("self_attn.q_proj", query, c.hidden),
                 part("self_attn.k_proj", key_value, c.hidden),
                 part("self_attn.v_proj", key_value, c.hidden)}),
            all({part("self_attn.o_proj", c.hidden, query)}),
            norm("post_attention_layernorm"),
            all({part("mlp.gate_proj", c.intermediate, c.hidden),
                 part("mlp.up_proj", c.intermediate, c.hidden)}),
            all({part("mlp.down_proj", c.hidden, c.intermediate)})};
  }

  config shape_;
  buffer<hunch::bfloat16> embedding_;  ///< [vocab_size, hidden]
  buffer<hunch::bfloat16> head_;       ///< [vocab_size, hidden], or empty: the embedding
  buffer<float> final_norm_;           ///< [hidden]
  buffer<float> cosine_;               ///< [context, head_dim / 2]
  buffer<float> sine_;
  std::vector<layer> layers_;
};

}  // namespace engine::device

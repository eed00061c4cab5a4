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

namespace engine::device {

/// Values of T in resident memory, uploaded once.
template <class T, hunch::ResidentExecutor Executor>
hunch::workspace<Executor, T> uploaded(Executor& executor, const std::vector<T>& values) {
  hunch::workspace<Executor, T> out(executor, values.size());
  executor.upload(out.data(), values.data(), values.size());
  return out;
}

/// The rows of several matrices, one below the other, padded with zeros; integers are multiplied by
/// their scales.
class host_matrix {
 public:
  host_matrix() = default;
  explicit host_matrix(std::initializer_list<matrix_view> parts) {
    for (const matrix_view& part : parts) { append(part); }
  }

  /// All rows of another matrix.
  void append(const matrix_view& part) { append(part, 0, part.rows); }
  /// Rows [first, last) of it.
  void append(const matrix_view& part, int first, int last) {
    width_ = padded(part.columns);
    for (int row = first; row < last; ++row) { append_row(part, row); }
  }
  /// Zeros below.
  void append_zeros(std::int32_t rows) {
    rows_ += rows;
    values_.resize(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_));
  }

  std::int32_t rows() const { return rows_; }
  std::int32_t width() const { return width_; }
  const std::vector<float>& values() const { return values_; }  ///< [rows, width]

 private:
  void append_row(const matrix_view& from, int row) {
    line_.resize(static_cast<std::size_t>(from.columns));
    from.read_row(row, line_.data());
    const float scale = from.scale_of(row);
    for (const float value : line_) { values_.push_back(value * scale); }
    append_zeros(1);
  }

  std::int32_t rows_ = 0;
  std::int32_t width_ = 0;
  std::vector<float> line_;
  std::vector<float> values_;
};

/// A matrix in resident memory as bfloat16.
template <hunch::ResidentExecutor Executor>
class bf16_matrix {
 public:
  bf16_matrix(Executor& executor, const host_matrix& from)
      : rows_(from.rows()), width_(from.width()), data_(uploaded(executor, rounded(from))) {}

  matrix view() const { return {data_.data(), rows_, width_}; }

 private:
  static std::vector<hunch::bfloat16> rounded(const host_matrix& from) {
    std::vector<hunch::bfloat16> out;
    out.reserve(from.values().size());
    for (const float value : from.values()) { out.push_back({to_bf16(value)}); }
    return out;
  }

  std::int32_t rows_;
  std::int32_t width_;
  hunch::workspace<Executor, hunch::bfloat16> data_;
};

/// All weights of a model in resident memory. Norms and rotations are float, the matrices of layers
/// as `Stored` has them, all others bfloat16.
/// \tparam Stored constructed from (executor, host_matrix); its `view()` is what products read.
template <hunch::ResidentExecutor Executor, class Stored>
class model_weights {
 public:
  template <class T>
  using buffer = hunch::workspace<Executor, T>;

  struct layer {
    buffer<float> attention_norm;  ///< [hidden]
    Stored queries_etc;            ///< [(heads + 2 kv_heads) head_dim, hidden]
    Stored output;                 ///< [hidden, heads head_dim]
    buffer<float> mlp_norm;        ///< [hidden]
    Stored gates_and_ups;          ///< [2 intermediate, hidden]
    Stored down;                   ///< [hidden, intermediate]
  };

  /// \throws std::runtime_error naming the tensor that is missing or has a wrong shape or dtype.
  model_weights(Executor& executor, const config& c, const checkpoint& source, int context)
      : shape_(c),
        embedding_(executor,
                   host_matrix{view(source, "model.embed_tokens", c.vocab_size, c.hidden)}),
        head_(executor, c.tied_head ? host_matrix{}
                                    : host_matrix{view(source, "lm_head", c.vocab_size, c.hidden)}),
        joint_(executor, source.has(joint_name)
                             ? host_matrix{source.matrix(joint_name, c.hidden, 2 * c.hidden)}
                             : host_matrix{}),
        final_norm_(uploaded(executor, source.vector("model.norm.weight", c.hidden))),
        cosine_(uploaded(executor, rope(c.rope, c.head_dim, context).cosine())),
        sine_(uploaded(executor, rope(c.rope, c.head_dim, context).sine())) {
    for (int l = 0; l < c.layers; ++l) { layers_.push_back(read_layer(executor, source, l)); }
  }

  const std::vector<layer>& layers() const { return layers_; }
  const float* final_norm() const { return final_norm_.data(); }
  const float* cosine() const { return cosine_.data(); }
  const float* sine() const { return sine_.data(); }

  matrix embedding() const { return embedding_.view(); }
  matrix head() const { return shape_.tied_head ? embedding() : head_.view(); }
  /// [hidden, 2 hidden] what an EAGLE head makes its input with; no outputs in other models.
  matrix joint() const { return joint_.view(); }

 private:
  static constexpr const char* joint_name = "model.fc.weight";

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
      return Stored(executor, host_matrix(parts));
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
  bf16_matrix<Executor> embedding_;  ///< [vocab_size, hidden]
  bf16_matrix<Executor> head_;       ///< [vocab_size, hidden], or empty: the embedding
  bf16_matrix<Executor> joint_;
  buffer<float> final_norm_;  ///< [hidden]
  buffer<float> cosine_;      ///< [context, head_dim / 2]
  buffer<float> sine_;
  std::vector<layer> layers_;
};

}  // namespace engine::device

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
#include <engine/tensors.hpp>
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
    for (const float value : from.values()) { out.emplace_back(to_bf16(value)); }
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
    buffer<float> biases;          ///< [(heads + 2 kv_heads) head_dim] of these, or empty
    buffer<float> query_norm;      ///< [head_dim] of each head, or empty
    buffer<float> key_norm;        ///< likewise
    Stored output;                 ///< [hidden, heads head_dim]
    buffer<float> mlp_norm;        ///< [hidden]
    Stored gates_and_ups;          ///< [2 intermediate, hidden]
    Stored down;                   ///< [hidden, intermediate]
  };

  /// \throws std::runtime_error naming the tensor that is missing or has a wrong shape or dtype.
  model_weights(Executor& executor, const config& c, const checkpoint& source, int context)
      : shape_(c),
        embedding_(executor, host_matrix{view(source, names_of(c.names).embedding,
                                              c.rows_of_embedding(), c.hidden)}),
        head_(executor, c.tied_head ? host_matrix{} : head_of(c, source)),
        joint_(executor, source.has(joint_name)
                             ? host_matrix{source.matrix(joint_name, c.hidden, 2 * c.hidden)}
                             : host_matrix{}),
        final_norm_(uploaded(executor, norm(source, names_of(c.names).final_norm, c.hidden))),
        cosine_(uploaded(executor, rope(c.rope, c.head_dim, context).cosine())),
        sine_(uploaded(executor, rope(c.rope, c.head_dim, context).sine())) {
    for (int l = 0; l < c.layers; ++l) { layers_.push_back(read_layer(executor, source, l)); }
  }

  const std::vector<layer>& layers() const { return layers_; }
  const float* final_norm() const { return final_norm_.data(); }
  const float* cosine() const { return cosine_.data(); }
  const float* sine() const { return sine_.data(); }

  matrix embedding() const { return embedding_.view(); }
  matrix head() const {
    if (!shape_.tied_head) { return head_.view(); }
    const matrix all = embedding();
    return {all.data, shape_.vocab_size, all.width};
  }
  /// [hidden, 2 hidden] what a head of a target makes its input with; no outputs in other models.
  matrix joint() const { return joint_.view(); }

 private:
  static constexpr const char* joint_name = "model.fc.weight";

  static matrix_view view(const checkpoint& source, const std::string& name, int rows,
                          int columns) {
    return source.matrix(name + ".weight", rows, columns);
  }

  static std::vector<float> norm(const checkpoint& source, const std::string& name, int size) {
    return source.vector(name + ".weight", size);
  }
  /// Without the rows that pad it.
  static host_matrix head_of(const config& c, const checkpoint& source) {
    host_matrix out;
    out.append(view(source, names_of(c.names).head, c.rows_of_embedding(), c.hidden), 0,
               c.vocab_size);
    return out;
  }

  layer read_layer(Executor& executor, const checkpoint& source, int l) const {
    const tensor_names& names = names_of(shape_.names);
    const std::string name = names.layer(l);
    const config& c = shape_;
    const int query = c.heads * c.head_dim;
    const int key_value = c.kv_heads * c.head_dim;
    const auto normal = [&](const char* part) {
      return uploaded(executor, norm(source, name + part, c.hidden));
    };
    const auto of_heads = [&](const char* part) {
      return uploaded(executor,
                      c.qk_norm ? norm(source, name + part, c.head_dim) : std::vector<float>{});
    };
    const auto part = [&](const char* which, int rows, int columns) {
      return view(source, name + which, rows, columns);
    };
    const auto all = [&](std::initializer_list<matrix_view> parts) {
      return Stored(executor, host_matrix(parts));
    };
    return {
        normal(names.attention_norm),
        all({part(names.query, query, c.hidden), part(names.key, key_value, c.hidden),
             part(names.value, key_value, c.hidden)}),
        uploaded(executor, c.qkv_bias ? read_biases(source, name, names, c) : std::vector<float>{}),
        of_heads(names.query_norm),
        of_heads(names.key_norm),
        all({part(names.output, c.hidden, query)}),
        normal(names.mlp_norm),
        all({part(names.gate, c.intermediate, c.hidden), part(names.up, c.intermediate, c.hidden)}),
        all({part(names.down, c.hidden, c.intermediate)})};
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

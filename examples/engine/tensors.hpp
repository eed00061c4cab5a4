// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>

namespace engine {

/// A tensor that the checkpoint of a model holds: a matrix [rows, columns], or a vector.
struct tensor_shape {
  std::string name;
  std::vector<std::int64_t> shape;

  bool is_vector() const { return shape.size() == 1; }
  std::size_t size() const {
    std::size_t n = 1;
    for (const std::int64_t extent : shape) { n *= static_cast<std::size_t>(extent); }
    return n;
  }
};

/// What a checkpoint calls the tensors of a model: those of a layer after its number, all without
/// ".weight" and ".bias".
struct tensor_names {
  const char* embedding;
  const char* layers;
  const char* attention_norm;
  const char* query;
  const char* key;
  const char* value;
  const char* query_norm;  ///< nullptr where no such model has them
  const char* key_norm;
  const char* output;
  const char* mlp_norm;
  const char* gate;
  const char* up;
  const char* down;
  const char* final_norm;
  const char* head;

  /// What comes before the names of the tensors of a layer.
  std::string layer(int index) const { return layers + std::to_string(index) + "."; }
};

const tensor_names& names_of(config::naming names);

/// The tensors of a model's checkpoint, by their names in a Hugging Face one.
std::vector<tensor_shape> tensors_of(const config& shape);

/// [(heads + 2 kv_heads) head_dim] the biases of queries, keys and values of the layer whose
/// tensors begin with `layer`. \throws std::runtime_error naming the tensor that is missing.
std::vector<float> read_biases(const checkpoint& source, const std::string& layer,
                               const tensor_names& names, const config& shape);

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

/// The tensors of a model's checkpoint, by their names in a Hugging Face one.
std::vector<tensor_shape> tensors_of(const config& shape);

}  // namespace engine

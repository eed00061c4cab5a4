// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <engine/bfloat16.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/row_batch.hpp>
#include <engine/tensors.hpp>
#include "copy.hpp"

/// \file
/// Small random models and texts for the tests.

namespace test {

using engine::keep;
using engine::read;
using engine::release;
using engine::row_batch;

/// Odd sizes on purpose: nothing is a multiple of a tile or of a block.
inline engine::config tiny_config() {
  engine::config c;
  c.vocab_size = 75;
  c.hidden = 40;
  c.intermediate = 54;
  c.layers = 2;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 10;
  c.context = 128;
  c.norm_epsilon = 1e-5f;
  return c;
}

/// Like the models that the examples ship, with fewer layers and tokens.
inline engine::config small_config() {
  engine::config c;
  c.vocab_size = 500;
  c.hidden = 256;
  c.intermediate = 704;
  c.layers = 2;
  c.heads = 8;
  c.kv_heads = 4;
  c.head_dim = 32;
  c.context = 256;
  c.tied_head = true;
  return c;
}

/// A tensor as it would lie in a file.
struct stored_tensor {
  std::string name;
  engine::dtype type = engine::dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

inline std::uint16_t to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const auto magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x38800000u) {  // subnormal half: fixed point in units of 2^-24
    const float scaled = std::fabs(x) * 0x1p24f;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(scaled)));
  }
  const auto rounded = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return static_cast<std::uint16_t>(sign | rounded);
}

/// `values` [rows, columns] as `type`; I8 comes with its scales as a second tensor.
inline std::vector<stored_tensor> encode(const std::string& name, const std::vector<float>& values,
                                         std::vector<std::int64_t> shape, engine::dtype type) {
  stored_tensor out{name, type, shape, {}};
  out.bytes.resize(values.size() * engine::size_of(type));
  if (type == engine::dtype::f32) {
    std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
    return {out};
  }
  if (type != engine::dtype::i8) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits =
          type == engine::dtype::bf16 ? engine::to_bf16(values[i]) : to_f16(values[i]);
      std::memcpy(out.bytes.data() + 2 * i, &bits, 2);
    }
    return {out};
  }
  const auto rows = static_cast<std::size_t>(shape.at(0));
  const std::size_t columns = values.size() / rows;
  std::vector<float> scale(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    float largest = 1e-6f;
    for (std::size_t k = 0; k < columns; ++k) {
      largest = std::max(largest, std::fabs(values[r * columns + k]));
    }
    scale[r] = largest / 127.0f;
    for (std::size_t k = 0; k < columns; ++k) {
      const auto q = static_cast<std::int8_t>(std::lround(values[r * columns + k] / scale[r]));
      out.bytes[r * columns + k] = static_cast<std::byte>(q);
    }
  }
  auto scales = encode(name + "_scale", scale, {shape.at(0)}, engine::dtype::f32);
  scales.insert(scales.begin(), out);
  return scales;
}

/// Random weights of a size at which activations stay near one. Norms are float even beside I8.
inline std::vector<stored_tensor> random_tensors(const engine::config& c, engine::dtype type,
                                                 std::uint32_t seed = 1) {
  std::mt19937 source(seed);
  std::normal_distribution<float> normal;
  std::vector<stored_tensor> out;
  for (const engine::tensor_shape& t : engine::tensors_of(c)) {
    std::vector<float> values(t.size());
    if (t.is_vector()) {
      for (float& v : values) { v = 1.0f + 0.2f * normal(source); }
      const auto norm_type = type == engine::dtype::i8 ? engine::dtype::f32 : type;
      out.push_back(encode(t.name, values, t.shape, norm_type).front());
    } else {
      const float deviation = 1.5f / std::sqrt(static_cast<float>(t.shape[1]));
      for (float& v : values) { v = deviation * normal(source); }
      for (auto& tensor : encode(t.name, values, t.shape, type)) { out.push_back(tensor); }
    }
  }
  return out;
}

inline engine::checkpoint in_memory(const std::vector<stored_tensor>& tensors) {
  engine::checkpoint out;
  for (const stored_tensor& t : tensors) { out.add(t.name, t.type, t.shape, t.bytes); }
  return out;
}

inline engine::checkpoint random_checkpoint(const engine::config& c,
                                            engine::dtype type = engine::dtype::f32,
                                            std::uint32_t seed = 1) {
  return in_memory(random_tensors(c, type, seed));
}

/// All arithmetics of this machine.
inline std::vector<engine::arithmetic> arithmetics() {
  using engine::arithmetic;
  std::vector<arithmetic> out{arithmetic::f32, arithmetic::bf16_fma, arithmetic::int8,
                              arithmetic::int4};
  if (engine::has_bf16_dot()) { out.push_back(arithmetic::bf16_dot); }
  return out;
}

/// `count` tokens of a fixed pseudo-random text.
inline std::vector<hunch::token> some_tokens(int count, int vocab_size, unsigned seed = 7) {
  std::vector<hunch::token> out;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(static_cast<hunch::token>((seed >> 8) % static_cast<unsigned>(vocab_size)));
  }
  return out;
}

inline const std::vector<hunch::token> prompt{10, 20, 30, 40, 50, 60, 70};

/// A root with two children, of which the first has two and the second one.
inline row_batch tree(int slot, int position) {
  row_batch rows;
  rows.add(slot, 0, hunch::end_of_cache, position, 3)
      .add(slot, 1, 0, position + 1, 4)
      .add(slot, 2, 0, position + 1, 5)
      .add(slot, 3, 1, position + 2, 6)
      .add(slot, 4, 1, position + 2, 7)
      .add(slot, 5, 2, position + 2, 6);
  return rows;
}

}  // namespace test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <engine/tensor.hpp>

namespace bench::diffusion {

/// A model with feed-forward layers of more units, whose outputs have the weight zero: the laws of
/// the model that it was made of, at the cost of one that no cache holds.
struct widened_model {
  engine::masked_config shape;
  engine::checkpoint weights;
};

namespace detail {

inline std::vector<std::byte> bytes_of(const engine::tensor_view& of) {
  std::size_t size = engine::size_of(of.type);
  for (const std::int64_t n : of.shape) { size *= static_cast<std::size_t>(n); }
  return {of.data, of.data + size};
}

inline void copy(const engine::checkpoint& from, engine::checkpoint& to, const std::string& name) {
  const engine::tensor_view& of = from.get(name);
  to.add(name, of.type, of.shape, bytes_of(of));
  const std::string scale = name + "_scale";
  if (from.has(scale)) {
    to.add(scale, engine::dtype::f32, from.get(scale).shape, bytes_of(from.get(scale)));
  }
}

/// I8 [rows, columns] with more of either, and their scales.
inline void widen(const engine::checkpoint& from, engine::checkpoint& to, const std::string& name,
                  std::int64_t more_rows, std::int64_t more_columns) {
  const engine::tensor_view& of = from.get(name);
  const std::int64_t rows = of.shape[0];
  const std::int64_t columns = of.shape[1];
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::vector<std::byte> values(size((rows + more_rows) * (columns + more_columns)));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(values.data() + r * (columns + more_columns), of.data + r * columns, size(columns));
  }
  // New rows are what the others are, so that all of them take as long.
  for (std::int64_t r = rows; r < rows + more_rows; ++r) {
    std::memcpy(values.data() + r * columns, values.data() + (r - rows) * columns, size(columns));
  }
  to.add(name, engine::dtype::i8, {rows + more_rows, columns + more_columns}, std::move(values));
  std::vector<std::byte> scale = bytes_of(from.get(name + "_scale"));
  const std::vector<std::byte> known = scale;
  for (std::int64_t left = more_rows; left > 0; left -= rows) {
    scale.insert(scale.end(), known.begin(),
                 known.begin() + static_cast<std::ptrdiff_t>(4 * std::min(left, rows)));
  }
  to.add(name + "_scale", engine::dtype::f32, {rows + more_rows}, std::move(scale));
}

}  // namespace detail

/// \param units that are added to each layer. \param folder of a HunchMaskedLlama in I8.
inline widened_model widened(const std::filesystem::path& folder, int units) {
  widened_model out{engine::read_masked_config(folder / "config.json"), {}};
  const engine::checkpoint from = engine::checkpoint::open(folder);
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight"}) {
    detail::copy(from, out.weights, name);
  }
  for (int layer = 0; layer < out.shape.model.layers; ++layer) {
    const std::string of = "model.layers." + std::to_string(layer) + ".";
    for (const char* name : {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj",
                             "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}) {
      detail::copy(from, out.weights, of + name + ".weight");
    }
    detail::widen(from, out.weights, of + "mlp.gate_proj.weight", units, 0);
    detail::widen(from, out.weights, of + "mlp.up_proj.weight", units, 0);
    detail::widen(from, out.weights, of + "mlp.down_proj.weight", 0, units);
  }
  out.shape.model.intermediate += units;
  return out;
}

}  // namespace bench::diffusion

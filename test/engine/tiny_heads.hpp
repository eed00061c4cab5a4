// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <engine/config.hpp>
#include <engine/tensor.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "tiny_model.hpp"

/// \file
/// Random heads of small models.

namespace test {

/// Of a view with a map through `inner` values.
inline std::vector<stored_tensor> exit_tensors(const engine::config& c, engine::dtype type,
                                               int inner = 9) {
  std::mt19937 source(11);
  std::normal_distribution<float> normal;
  const auto values = [&](std::size_t count, float centre, float deviation) {
    std::vector<float> out(count);
    for (float& v : out) { v = centre + deviation * normal(source); }
    return out;
  };
  const auto d = static_cast<std::size_t>(c.hidden);
  const auto r = static_cast<std::size_t>(inner);
  auto out = encode("exit.norm.weight", values(d, 1.0f, 0.2f), {c.hidden}, engine::dtype::f32);
  for (const auto& [name, rows, columns] : {std::tuple{"exit.down.weight", inner, c.hidden},
                                            std::tuple{"exit.up.weight", c.hidden, inner}}) {
    const float deviation = 1.5f / std::sqrt(static_cast<float>(columns));
    for (auto& t : encode(name, values(d * r, 0.0f, deviation), {rows, columns}, type)) {
      out.push_back(t);
    }
  }
  return out;
}

inline std::string medusa_name(int j) { return "medusa." + std::to_string(j) + ".weight"; }

inline std::string own_head_name(int j) { return "heads." + std::to_string(j) + ".weight"; }

/// \param own_heads each with a language-model head to itself.
inline std::vector<stored_tensor> medusa_tensors(const engine::config& c, engine::dtype type,
                                                 int heads, bool own_heads = false) {
  std::mt19937 source(5);
  std::normal_distribution<float> normal;
  std::vector<stored_tensor> out;
  for (int j = 0; j < heads; ++j) {
    std::vector<float> values(static_cast<std::size_t>(c.hidden * c.hidden));
    const float deviation = 1.5f / std::sqrt(static_cast<float>(c.hidden));
    for (float& v : values) { v = deviation * normal(source); }
    for (auto& t : encode(medusa_name(j), values, {c.hidden, c.hidden}, type)) { out.push_back(t); }
    if (!own_heads) { continue; }
    values.resize(static_cast<std::size_t>(c.vocab_size * c.hidden));
    for (float& v : values) { v = deviation * normal(source); }
    for (auto& t : encode(own_head_name(j), values, {c.vocab_size, c.hidden}, type)) {
      out.push_back(t);
    }
  }
  return out;
}

/// Of an EAGLE head of that shape, with an embedding and a head like those of the target of seed 1.
inline std::vector<stored_tensor> eagle_tensors(const engine::config& c, engine::dtype type) {
  std::mt19937 source(23);
  std::normal_distribution<float> normal;
  std::vector<float> fc(2 * static_cast<std::size_t>(c.hidden) *
                        static_cast<std::size_t>(c.hidden));
  const float deviation = 1.0f / std::sqrt(static_cast<float>(c.hidden));
  for (float& v : fc) { v = deviation * normal(source); }
  std::vector<stored_tensor> out = random_tensors(c, type);
  for (auto& t : encode("model.fc.weight", fc, {c.hidden, 2 * c.hidden}, type)) {
    out.push_back(std::move(t));
  }
  return out;
}

/// A router of random weights over 9 clusters, for contexts of so many numbers.
inline hunch::router::weights random_router(std::int32_t inputs) {
  auto w = hunch::router::weights::sized(inputs, 8, 9);
  std::mt19937 source(3);
  std::normal_distribution<float> normal;
  for (auto* of : {&w.first, &w.second, &w.second_bias}) {
    for (float& x : *of) { x = 0.5f * normal(source); }
  }
  return w;
}

/// What such a router chooses among: clusters of the tokens in an order, some at a time.
template <class Router>
auto random_clusters(const hunch::vocab_layout& order, const Router& router) {
  constexpr std::int32_t core = 5;
  const std::int32_t rows = order.head_rows();
  std::vector<std::int32_t> begin;
  for (std::int32_t i = 0; i <= router.clusters; ++i) {
    begin.push_back(core + i * (rows - core) / router.clusters);
  }
  return hunch::selector::clustered{
      order.clustered(begin), router,
      hunch::budget::per_row<hunch::budget::rows>{{router.clusters, rows / 2}}};
}

inline constexpr int tiny_streams = 3;

inline std::vector<stored_tensor> stream_tensors(const engine::config& c, int layers,
                                                 engine::dtype type, bool told = true, int rank = 5,
                                                 bool one_map = false) {
  std::mt19937 source(17);
  std::normal_distribution<float> normal;
  std::vector<stored_tensor> out;
  const auto add = [&](const std::string& name, int rows, int columns) {
    std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    const float deviation = 1.0f / std::sqrt(static_cast<float>(columns));
    for (float& v : values) { v = deviation * normal(source); }
    for (auto& t : encode("streams." + name + ".weight", values, {rows, columns}, type)) {
      out.push_back(t);
    }
  };
  const int query = c.heads * c.head_dim;
  add("down", rank + 2, c.hidden);
  add("up", (one_map ? 1 : tiny_streams) * c.hidden, rank + 2);
  add("embedding", tiny_streams, c.hidden);
  if (told) {
    add("root.down", rank + 3, 2 * c.hidden);
    add("root.up", tiny_streams * c.hidden, rank + 3);
  }
  for (int l = 0; l < layers; ++l) {
    const std::string name = "layers." + std::to_string(l) + ".";
    add(name + "query_key_value.a", rank, c.hidden);
    add(name + "query_key_value.b", query + 2 * c.kv_heads * c.head_dim, rank);
    add(name + "output.a", rank, query);
    add(name + "output.b", c.hidden, rank);
    add(name + "gate.a", rank, c.hidden);
    add(name + "gate.b", c.intermediate, rank);
    add(name + "up.b", c.intermediate, rank);
    add(name + "down.a", rank + 1, c.intermediate);
    add(name + "down.b", c.hidden, rank + 1);
  }
  return out;
}

}  // namespace test

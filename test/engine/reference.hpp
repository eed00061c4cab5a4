// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>

/// \file
/// The textbook transformer in double precision, without caches, batches or packing: what the
/// engine must compute. It shares nothing with the engine but the reading of tensors.

namespace test {

using vec = std::vector<double>;

inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

class reference_model {
 public:
  reference_model(engine::config shape, const engine::checkpoint& weights)
      : c_{std::move(shape)}, weights_{weights} {}

  /// The logits at the last of `tokens`, which have the given absolute positions.
  vec logits(const std::vector<int>& tokens, const std::vector<int>& positions) const {
    return head(norm(weights_, "model.norm.weight", residual(tokens, positions, c_.layers)));
  }

  /// The last of `tokens` behind the first `layers` layers.
  vec residual(const std::vector<int>& tokens, const std::vector<int>& positions,
               int layers) const {
    std::vector<vec> x;
    for (const int t : tokens) {
      x.push_back(row(weights_.matrix("model.embed_tokens.weight", c_.vocab_size, c_.hidden), t));
    }
    for (int l = 0; l < layers; ++l) {
      const std::string name = "model.layers." + std::to_string(l) + ".";
      attention(name, x, positions);
      for (vec& v : x) { add(v, feed_forward(name, v)); }
    }
    return x.back();
  }

  /// The logits of a hidden state.
  vec head(const vec& hidden) const {
    return product(weights_, c_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight",
                   c_.vocab_size, hidden);
  }

  vec norm(const engine::checkpoint& from, const std::string& name, const vec& x) const {
    const std::vector<float> weight = from.vector(name, c_.hidden);
    double squares = 0;
    for (const double v : x) { squares += v * v; }
    const double scale =
        1.0 / std::sqrt(squares / c_.hidden + static_cast<double>(c_.norm_epsilon));
    vec out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      out[i] = x[i] * scale * static_cast<double>(weight[i]);
    }
    return out;
  }

  static vec row(const engine::matrix_view& m, int index) {
    std::vector<float> values(static_cast<std::size_t>(m.columns));
    m.read_row(index, values.data());
    vec out(values.begin(), values.end());
    for (double& v : out) { v *= static_cast<double>(m.scale_of(index)); }
    return out;
  }

  static vec product(const engine::checkpoint& from, const std::string& name, int rows,
                     const vec& x) {
    const engine::matrix_view m = from.matrix(name, rows, static_cast<int>(x.size()));
    vec out;
    for (int r = 0; r < rows; ++r) {
      const vec w = row(m, r);
      out.push_back(std::inner_product(w.begin(), w.end(), x.begin(), 0.0));
    }
    return out;
  }

  static void add(vec& to, const vec& what) {
    for (std::size_t i = 0; i < to.size(); ++i) { to[i] += what[i]; }
  }

 private:
  double frequency(int i) const {
    const double plain = std::pow(c_.rope.theta, -2.0 * i / c_.head_dim);
    if (c_.rope.kind == engine::rope_config::scaling::linear) { return plain / c_.rope.factor; }
    if (c_.rope.kind == engine::rope_config::scaling::llama3) {
      const double wave = 2.0 * std::numbers::pi / plain;
      if (wave > c_.rope.original_context / c_.rope.low_frequency_factor) {
        return plain / c_.rope.factor;
      }
      if (wave < c_.rope.original_context / c_.rope.high_frequency_factor) { return plain; }
      const double smooth = (c_.rope.original_context / wave - c_.rope.low_frequency_factor) /
                            (c_.rope.high_frequency_factor - c_.rope.low_frequency_factor);
      return (1.0 - smooth) * plain / c_.rope.factor + smooth * plain;
    }
    return plain;
  }

  /// Turns every head of `x` to `position`.
  void rotate(vec& x, int position) const {
    const int half = c_.head_dim / 2;
    for (std::size_t head = 0; head < x.size(); head += static_cast<std::size_t>(c_.head_dim)) {
      for (int i = 0; i < half; ++i) {
        const double angle = frequency(i) * position;
        double& a = x[head + static_cast<std::size_t>(i)];
        double& b = x[head + static_cast<std::size_t>(i + half)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
    }
  }

  void attention(const std::string& layer, std::vector<vec>& x,
                 const std::vector<int>& positions) const {
    std::vector<vec> queries, keys, values;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const vec h = norm(weights_, layer + "input_layernorm.weight", x[i]);
      queries.push_back(
          product(weights_, layer + "self_attn.q_proj.weight", c_.heads * c_.head_dim, h));
      keys.push_back(
          product(weights_, layer + "self_attn.k_proj.weight", c_.kv_heads * c_.head_dim, h));
      values.push_back(
          product(weights_, layer + "self_attn.v_proj.weight", c_.kv_heads * c_.head_dim, h));
      rotate(queries.back(), positions[i]);
      rotate(keys.back(), positions[i]);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      vec mixed(queries[i].size());
      for (int h = 0; h < c_.heads; ++h) {
        const auto q = static_cast<std::size_t>(h * c_.head_dim);
        const auto kv = static_cast<std::size_t>(h / (c_.heads / c_.kv_heads) * c_.head_dim);
        const auto size = static_cast<std::size_t>(c_.head_dim);
        vec p;
        double total = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < size; ++d) { score += queries[i][q + d] * keys[j][kv + d]; }
          p.push_back(std::exp(score / std::sqrt(static_cast<double>(c_.head_dim))));
          total += p.back();
        }
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t d = 0; d < size; ++d) {
            mixed[q + d] += p[j] / total * values[j][kv + d];
          }
        }
      }
      add(x[i], product(weights_, layer + "self_attn.o_proj.weight", c_.hidden, mixed));
    }
  }

  vec feed_forward(const std::string& layer, const vec& x) const {
    const vec h = norm(weights_, layer + "post_attention_layernorm.weight", x);
    vec gate = product(weights_, layer + "mlp.gate_proj.weight", c_.intermediate, h);
    const vec up = product(weights_, layer + "mlp.up_proj.weight", c_.intermediate, h);
    for (std::size_t i = 0; i < gate.size(); ++i) { gate[i] = silu(gate[i]) * up[i]; }
    return product(weights_, layer + "mlp.down_proj.weight", c_.hidden, gate);
  }

  engine::config c_;
  const engine::checkpoint& weights_;
};

}  // namespace test

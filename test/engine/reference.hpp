// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
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

  /// The last of `tokens` after the first `layers` layers.
  vec residual(const std::vector<int>& tokens, const std::vector<int>& positions,
               int layers) const {
    return residuals(tokens, positions, layers).back();
  }

  /// Whether row i attends to row j.
  using visibility = std::function<bool(std::size_t i, std::size_t j)>;

  /// The last hidden states of all rows, at the positions 0, 1, ..., where row i attends to what
  /// `sees` says.
  std::vector<vec> hidden(const std::vector<int>& tokens, const visibility& sees) const {
    std::vector<int> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    return normed(residuals(tokens, positions, c_.layers, sees));
  }

  /// All rows after the first `layers` layers, as `hidden`.
  std::vector<vec> residuals(const std::vector<int>& tokens, int layers,
                             const visibility& sees) const {
    std::vector<int> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), 0);
    return residuals(tokens, positions, layers, sees);
  }

  struct keys_values {
    std::vector<vec> keys, values;
  };

  /// Of rows before a layer.
  keys_values read(int layer, const std::vector<vec>& x, const std::vector<int>& positions) const {
    keys_values out;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::string name = layer_name(layer);
      const vec h = norm(weights_, name + "input_layernorm.weight", x[i]);
      const int size = c_.kv_heads * c_.head_dim;
      out.keys.push_back(product(weights_, name + "self_attn.k_proj.weight", size, h));
      out.values.push_back(product(weights_, name + "self_attn.v_proj.weight", size, h));
      if (c_.qkv_bias) {
        add_bias(out.keys.back(), name + "self_attn.k_proj.bias");
        add_bias(out.values.back(), name + "self_attn.v_proj.bias");
      }
      if (c_.qk_norm) { normalise_heads(out.keys.back(), name + "self_attn.k_norm.weight"); }
      rotate(out.keys.back(), positions[i]);
    }
    return out;
  }

  /// What all layers and the last norm make of rows at the given positions, which also attend to
  /// `before`, for each layer.
  std::vector<vec> continued(std::vector<vec> x, const std::vector<int>& positions,
                             const visibility& sees, const std::vector<keys_values>& before) const {
    through(x, positions, 0, c_.layers, {}, sees, before);
    return normed(std::move(x));
  }

  /// The embedding of a token.
  vec embedding(int token) const {
    return row(weights_.matrix("model.embed_tokens.weight", c_.vocab_size, c_.hidden), token);
  }

  /// Speculative streams beside the last of `tokens`: after the last norm.
  std::vector<vec> streams(const engine::checkpoint& own, int count, int layers,
                           const std::vector<int>& tokens, std::vector<int> positions,
                           bool one_linear_map = false) const {
    std::vector<vec> x = residuals(tokens, positions, c_.layers - layers);
    const vec last = x.back();
    double squares = 0;
    for (const double v : last) { squares += v * v; }
    vec inner(last);
    for (double& v : inner) {
      v /= std::sqrt(squares / c_.hidden + static_cast<double>(c_.norm_epsilon));
    }
    const auto rank = static_cast<int>(own.get("streams.down.weight").shape[0]);
    inner = product(own, "streams.down.weight", rank, inner);
    for (double& v : inner) { v = one_linear_map ? v : silu(v); }
    vec begun = product(own, "streams.up.weight", (one_linear_map ? 1 : count) * c_.hidden, inner);
    const vec of_one = begun;
    for (int j = 1; one_linear_map && j < count; ++j) {
      begun.insert(begun.end(), of_one.begin(), of_one.end());
    }
    const stream_part part{&own, x.size()};
    const int at = positions.back();
    for (int j = 0; j < count; ++j) {
      vec s = last;
      add(s, row(own.matrix("streams.embedding.weight", count, c_.hidden), j));
      add(s, {begun.begin() + j * c_.hidden, begun.begin() + (j + 1) * c_.hidden});
      x.push_back(s);
      positions.push_back(at + 1 + j);
    }
    through(x, positions, c_.layers - layers, c_.layers, part, causal, {});
    std::vector<vec> out;
    for (std::size_t i = part.first; i < x.size(); ++i) {
      out.push_back(norm(weights_, "model.norm.weight", x[i]));
    }
    return out;
  }

  /// What is drafted from: the j-th of `count` streams, told the root.
  vec told(const engine::checkpoint& own, int count, int j, const vec& state, int root) const {
    if (!own.has("streams.root.down.weight")) { return state; }
    vec joined = state;
    const vec embedded = embedding(root);
    joined.insert(joined.end(), embedded.begin(), embedded.end());
    const auto rank = static_cast<int>(own.get("streams.root.down.weight").shape[0]);
    vec inner = product(own, "streams.root.down.weight", rank, joined);
    for (double& v : inner) { v = silu(v); }
    const vec all = product(own, "streams.root.up.weight", count * c_.hidden, inner);
    vec out = state;
    add(out, {all.begin() + j * c_.hidden, all.begin() + (j + 1) * c_.hidden});
    return out;
  }

  /// The logits of a hidden state.
  vec head(const vec& hidden) const {
    return product(weights_, c_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight",
                   c_.vocab_size, hidden);
  }

  vec norm(const engine::checkpoint& from, const std::string& name, const vec& x) const {
    const std::vector<float> weight = from.vector(name, static_cast<int>(x.size()));
    double squares = 0;
    for (const double v : x) { squares += v * v; }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) +
                                         static_cast<double>(c_.norm_epsilon));
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
  std::vector<vec> normed(std::vector<vec> x) const {
    for (vec& row : x) { row = norm(weights_, "model.norm.weight", row); }
    return x;
  }

  /// Rows from `first` on are streams, with adapters of their own.
  struct stream_part {
    const engine::checkpoint* own = nullptr;
    std::size_t first = 0;
  };

  static bool causal(std::size_t i, std::size_t j) { return j <= i; }

  std::vector<vec> residuals(const std::vector<int>& tokens, const std::vector<int>& positions,
                             int layers, const visibility& sees = causal) const {
    std::vector<vec> x;
    for (const int t : tokens) { x.push_back(embedding(t)); }
    through(x, positions, 0, layers, {}, sees, {});
    return x;
  }

  void through(std::vector<vec>& x, const std::vector<int>& positions, int first, int last,
               const stream_part& part, const visibility& sees,
               const std::vector<keys_values>& before) const {
    for (int l = first; l < last; ++l) {
      const std::string name = layer_name(l);
      const std::string more = "streams.layers." + std::to_string(l - first) + ".";
      const keys_values none;
      attention(l, more, part, x, positions, sees,
                before.empty() ? none : before[static_cast<std::size_t>(l)]);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool is_stream = part.own != nullptr && i >= part.first;
        add(x[i], feed_forward(name, is_stream ? part.own : nullptr, more, x[i]));
      }
    }
  }

  /// b a x of an adapter.
  static vec adapted(const engine::checkpoint& own, const std::string& a, const std::string& b,
                     int rows, const vec& x) {
    const auto rank = static_cast<int>(own.get(a + ".a.weight").shape[0]);
    return product(own, b + ".b.weight", rows, product(own, a + ".a.weight", rank, x));
  }

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

  /// Each head of `x` after a norm.
  void normalise_heads(vec& x, const std::string& name) const {
    for (auto head = x.begin(); head != x.end(); head += c_.head_dim) {
      const vec normed = norm(weights_, name, {head, head + c_.head_dim});
      std::copy(normed.begin(), normed.end(), head);
    }
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

  static std::string layer_name(int layer) { return "model.layers." + std::to_string(layer) + "."; }

  /// Rows attend to those that they see, and to all of `before`.
  void attention(int l, const std::string& more, const stream_part& part, std::vector<vec>& x,
                 const std::vector<int>& positions, const visibility& sees,
                 const keys_values& before) const {
    const std::string layer = layer_name(l);
    std::vector<vec> queries;
    auto [keys, values] = read(l, x, positions);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const vec h = norm(weights_, layer + "input_layernorm.weight", x[i]);
      queries.push_back(
          product(weights_, layer + "self_attn.q_proj.weight", c_.heads * c_.head_dim, h));
      if (c_.qkv_bias) { add_bias(queries.back(), layer + "self_attn.q_proj.bias"); }
      if (part.own != nullptr && i >= part.first) {
        const int query = c_.heads * c_.head_dim;
        const int key = c_.kv_heads * c_.head_dim;
        const std::string name = more + "query_key_value";
        const vec all = adapted(*part.own, name, name, query + 2 * key, h);
        add(queries.back(), {all.begin(), all.begin() + query});
        vec more_key(all.begin() + query, all.begin() + query + key);
        rotate(more_key, positions[i]);
        add(keys[i], more_key);
        add(values[i], {all.begin() + query + key, all.end()});
      }
      if (c_.qk_norm) { normalise_heads(queries.back(), layer + "self_attn.q_norm.weight"); }
      rotate(queries.back(), positions[i]);
    }
    keys.insert(keys.end(), before.keys.begin(), before.keys.end());
    values.insert(values.end(), before.values.begin(), before.values.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      vec mixed(queries[i].size());
      for (int h = 0; h < c_.heads; ++h) {
        const auto q = static_cast<std::size_t>(h * c_.head_dim);
        const auto kv = static_cast<std::size_t>(h / (c_.heads / c_.kv_heads) * c_.head_dim);
        const auto size = static_cast<std::size_t>(c_.head_dim);
        vec p(keys.size());
        double total = 0;
        for (std::size_t j = 0; j < keys.size(); ++j) {
          if (j < x.size() && !sees(i, j)) { continue; }
          double score = 0;
          for (std::size_t d = 0; d < size; ++d) { score += queries[i][q + d] * keys[j][kv + d]; }
          p[j] = std::exp(score / std::sqrt(static_cast<double>(c_.head_dim)));
          total += p[j];
        }
        for (std::size_t j = 0; j < keys.size(); ++j) {
          for (std::size_t d = 0; d < size; ++d) {
            mixed[q + d] += p[j] / total * values[j][kv + d];
          }
        }
      }
      add(x[i], product(weights_, layer + "self_attn.o_proj.weight", c_.hidden, mixed));
      if (part.own != nullptr && i >= part.first) {
        add(x[i], adapted(*part.own, more + "output", more + "output", c_.hidden, mixed));
      }
    }
  }

  void add_bias(vec& to, const std::string& name) const {
    const std::vector<float> bias = weights_.vector(name, static_cast<int>(to.size()));
    add(to, {bias.begin(), bias.end()});
  }

  vec feed_forward(const std::string& layer, const engine::checkpoint* own, const std::string& more,
                   const vec& x) const {
    const vec h = norm(weights_, layer + "post_attention_layernorm.weight", x);
    vec gate = product(weights_, layer + "mlp.gate_proj.weight", c_.intermediate, h);
    vec up = product(weights_, layer + "mlp.up_proj.weight", c_.intermediate, h);
    if (own != nullptr) {
      add(gate, adapted(*own, more + "gate", more + "gate", c_.intermediate, h));
      add(up, adapted(*own, more + "gate", more + "up", c_.intermediate, h));
    }
    for (std::size_t i = 0; i < gate.size(); ++i) { gate[i] = silu(gate[i]) * up[i]; }
    vec out = product(weights_, layer + "mlp.down_proj.weight", c_.hidden, gate);
    if (own != nullptr) { add(out, adapted(*own, more + "down", more + "down", c_.hidden, gate)); }
    return out;
  }

  engine::config c_;
  const engine::checkpoint& weights_;
};

}  // namespace test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/device/matrix.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>

namespace engine::device {

/// b a x, added to what a product makes of x.
template <hunch::ResidentExecutor Executor>
struct stream_adapter {
  bf16_matrix<Executor> a;  ///< [rank, inputs]
  bf16_matrix<Executor> b;  ///< [outputs, rank]
};

/// What streams have of their own beside the weights of their target, and room for their rows.
template <hunch::ResidentExecutor Executor, class Input>
class stream_weights {
 public:
  using adapter = stream_adapter<Executor>;
  template <class T>
  using resident = hunch::workspace<Executor, T>;
  /// Of the layers from the lowest that streams run through.
  struct layer {
    adapter queries_etc;
    adapter output;
    adapter gates_and_ups;
    adapter down;
  };

  /// \param rows of tokens in a pass. \throws std::runtime_error naming the tensor that does not
  /// fit.
  stream_weights(Executor& executor, const stream_config& of, const checkpoint& source,
                 const config& c, std::int32_t rows)
      : shape(of),
        down(executor, matrix_of(source, "down", source.rows_of("streams.down.weight"), c.hidden)),
        up(executor, ups(source, of.streams, source.rows_of("streams.down.weight"), c.hidden)),
        embeddings(uploaded(executor, padded_embeddings(source, c.hidden))),
        ones(uploaded(executor, std::vector<float>(static_cast<std::size_t>(c.hidden), 1.0f))),
        layers(all_layers(executor, source, of, c)),
        inner(executor, size(rows * of.streams) * size(largest_rank())),
        reduced(executor, size(rows * of.streams) * size(padded(largest_rank()))),
        begun(executor, size(rows) * size(up.view().outputs)),
        states(executor, size(rows * of.streams) * size(padded(c.hidden))) {}

  std::int32_t stride() const { return up.view().outputs / shape.streams; }

  /// Announces all products. \tparam Multiply a policy of products.
  template <class Multiply>
  void prepare(Multiply& multiply) const {
    multiply.prepare(down.view(), into::overwrite);
    multiply.prepare(up.view(), into::overwrite);
    for (const layer& l : layers) {
      for (const adapter* of : {&l.queries_etc, &l.output, &l.gates_and_ups, &l.down}) {
        multiply.prepare(of->a.view(), into::overwrite);
        multiply.prepare(of->b.view(), into::add);
      }
    }
  }

  /// The tensor "streams.<name>.weight".
  static host_matrix matrix_of(const checkpoint& source, const std::string& name, std::int32_t rows,
                               std::int32_t columns) {
    return host_matrix{source.matrix("streams." + name + ".weight", rows, columns)};
  }

  const stream_config shape;
  bf16_matrix<Executor> down;  ///< [rank, hidden]
  bf16_matrix<Executor> up;    ///< [streams, hidden padded, rank]
  resident<float> embeddings;  ///< [streams, hidden padded]
  resident<float> ones;        ///< [hidden] a norm without weights
  std::vector<layer> layers;
  resident<float> inner;    ///< [rows, rank]
  resident<Input> reduced;  ///< [rows, rank padded]
  resident<float> begun;    ///< [rows of tokens, streams, hidden padded]
  resident<float> states;   ///< [rows of tokens, streams, hidden padded]

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  /// [streams hidden, rank], the rows of a stream followed by zeros.
  static host_matrix ups(const checkpoint& source, std::int32_t streams, std::int32_t rank,
                         std::int32_t hidden) {
    const bool one_map = source.rows_of("streams.up.weight") == hidden;
    const matrix_view whole =
        source.matrix("streams.up.weight", (one_map ? 1 : streams) * hidden, rank);
    host_matrix out;
    for (std::int32_t j = 0; j < streams; ++j) {
      const std::int32_t first = one_map ? 0 : j * hidden;
      out.append(whole, first, first + hidden);
      out.append_zeros(padded(hidden) - hidden);
    }
    return out;
  }

  std::vector<float> padded_embeddings(const checkpoint& source, std::int32_t hidden) const {
    return host_matrix{source.matrix("streams.embedding.weight", shape.streams, hidden)}.values();
  }

  static std::vector<layer> all_layers(Executor& executor, const checkpoint& source,
                                       const stream_config& of, const config& c) {
    const std::int32_t query = c.heads * c.head_dim;
    std::vector<layer> out;
    for (std::int32_t l = 0; l < of.layers; ++l) {
      const std::string name = "layers." + std::to_string(l) + ".";
      const auto rank_of = [&](const std::string& part) {
        return source.rows_of("streams." + name + part + ".a.weight");
      };
      const auto plain = [&](const std::string& part, std::int32_t inputs, std::int32_t outputs) {
        const std::int32_t rank = rank_of(part);
        return adapter{{executor, matrix_of(source, name + part + ".a", rank, inputs)},
                       {executor, matrix_of(source, name + part + ".b", outputs, rank)}};
      };
      // Gates and ups have one a.
      const std::int32_t rank = rank_of("gate");
      host_matrix both = matrix_of(source, name + "gate.b", c.intermediate, rank);
      both.append(source.matrix("streams." + name + "up.b.weight", c.intermediate, rank));
      out.push_back({plain("query_key_value", c.hidden, query + 2 * c.kv_heads * c.head_dim),
                     plain("output", query, c.hidden),
                     adapter{{executor, matrix_of(source, name + "gate.a", rank, c.hidden)},
                             {executor, both}},
                     plain("down", c.intermediate, c.hidden)});
    }
    return out;
  }

  std::int32_t largest_rank() const {
    std::int32_t most = down.view().outputs;
    for (const layer& l : layers) {
      for (const adapter* of : {&l.queries_etc, &l.output, &l.gates_and_ups, &l.down}) {
        most = std::max(most, of->a.view().outputs);
      }
    }
    return most;
  }
};

}  // namespace engine::device

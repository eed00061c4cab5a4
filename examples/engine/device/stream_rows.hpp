// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/device/matrix.hpp>
#include <engine/device/staging.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Speculative streams as rows of a pass: stream j of row i is row `tokens` + i * streams + j.
/// Beside rows that are not wanted there are none, and their rows are left out.

namespace engine::device {

/// Stages stream `index` % streams beside row `index` / streams: it reads what its row reads, its
/// row, and the streams before it.
struct stage_streams {
  pass_plan plan;
  std::int32_t tokens;       ///< rows of the pass that are of tokens
  std::int32_t streams;      ///< beside each
  std::int32_t max_streams;  ///< cells of a row for them
  std::int32_t first_id;     ///< the cells of streams come after those of rows
  std::int32_t max_length;   ///< positions

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t main_row = index / streams;
    const std::int32_t j = index % streams;
    const std::int32_t at = tokens + index;
    const bool there = plan.wanted[main_row] != 0;
    planned_row row = plan.rows[main_row];
    const std::int32_t first = first_id + row.id * max_streams;
    const std::int32_t depth = row.depth;
    const std::int32_t* const from = plan.path(row.path);
    if (team.rank() == 0) {
      row.id = first + j;
      row.path = at;
      row.depth = depth + 1 + j;
      row.position = row.position + 1 + j < max_length ? row.position + 1 + j : max_length - 1;
      plan.rows[at] = there ? row : planned_row{};
      plan.computed[at] = there ? 1 : 0;
    }
    if (!there) { return; }
    std::int32_t* const path = plan.path(at);
    team.for_each(depth + 1 + j, [=](std::int64_t i) {
      const auto place = static_cast<std::int32_t>(i);
      path[i] = place < depth ? from[i] : first + (place - depth);
    });
  }
};

/// What stream `index` % streams of row `index` / streams begins with: the residual of its row, a
/// small map of it, and an embedding of its own.
struct begin_streams {
  const std::uint8_t* wanted;  ///< [tokens]
  std::int32_t tokens;
  std::int32_t streams;
  float* residual;  ///< [rows, size]
  std::int32_t size;
  const float* begun;  ///< [tokens, all streams, width]
  std::int32_t all_streams;
  const float* embeddings;  ///< [all streams, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t main_row = index / streams;
    const std::int32_t j = index % streams;
    if (wanted[main_row] == 0) { return; }
    const float* const from = residual + static_cast<std::int64_t>(main_row) * size;
    const float* const map =
        begun + (static_cast<std::int64_t>(main_row) * all_streams + j) * width;
    const float* const embedding = embeddings + static_cast<std::int64_t>(j) * width;
    float* const to = residual + static_cast<std::int64_t>(tokens + index) * size;
    team.for_each(size, [=](std::int64_t i) { to[i] = from[i] + map[i] + embedding[i]; });
  }
};

/// out[i] = from[i] as an input of a product, with zeros behind: other products use the same
/// memory.
template <class Input>
struct round_rows {
  const std::uint8_t* asked;
  const float* from;  ///< [rows, size]
  std::int32_t size;
  Input* out;  ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked[index] == 0) { return; }
    const float* const x = from + static_cast<std::int64_t>(index) * size;
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    const std::int32_t n = size;
    team.for_each(width, [=](std::int64_t i) { put(to[i], i < n ? x[i] : 0.0f); });
  }
};

/// State `index` / inputs of input `index` % inputs, and with it the embedding of its root.
template <class Input>
struct place_streams {
  const float* const* hidden;  ///< [inputs] of [states, size]
  const hunch::token* roots;   ///< [inputs]
  std::int32_t inputs;
  std::int32_t size;
  const hunch::bfloat16* embedding;  ///< [vocab_size, embedding_width]
  std::int32_t embedding_width;
  float* states;  ///< [inputs, all streams, stride]
  std::int32_t all_streams;
  std::int32_t stride;
  Input* joined;  ///< [states, inputs, width]
  std::int32_t width;
  std::uint8_t* there;  ///< [states, inputs] out

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t j = index / inputs;
    const std::int32_t of = index % inputs;
    const float* const given = hidden[of];
    if (team.rank() == 0) { there[index] = given == nullptr ? 0 : 1; }
    if (given == nullptr) { return; }
    const float* const from = given + static_cast<std::int64_t>(j) * size;
    const hunch::bfloat16* const root =
        embedding + static_cast<std::int64_t>(roots[of]) * embedding_width;
    float* const state = states + (static_cast<std::int64_t>(of) * all_streams + j) * stride;
    Input* const both = joined + static_cast<std::int64_t>(index) * width;
    const std::int32_t n = size;
    team.for_each(n, [=](std::int64_t i) {
      state[i] = from[i];
      put(both[i], from[i]);
      put(both[n + i], hunch::to_float(root[i]));
    });
  }
};

/// Adds what the root makes of state `index` / inputs of input `index` % inputs.
struct add_roots {
  const std::uint8_t* there;  ///< [states, inputs]
  const float* products;      ///< [states, inputs, stride]
  std::int32_t inputs;
  std::int32_t size;
  float* states;  ///< [inputs, all streams, stride]
  std::int32_t all_streams;
  std::int32_t stride;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (there[index] == 0) { return; }
    const std::int32_t j = index / inputs;
    const std::int32_t of = index % inputs;
    const float* const from = products + static_cast<std::int64_t>(index) * stride;
    float* const state = states + (static_cast<std::int64_t>(of) * all_streams + j) * stride;
    team.for_each(size, [=](std::int64_t i) { state[i] += from[i]; });
  }
};

}  // namespace engine::device

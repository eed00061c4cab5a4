// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace engine {

/// Keys and values of one key-value head.
struct attention_run {
  const float* keys = nullptr;    ///< [positions / 16][head_dim][16], see `kv_cache`
  const float* values = nullptr;  ///< [positions][padded_head_dim]
  int head_dim = 0;
  int padded_head_dim = 0;
};

/// One query head of one row.
struct attention_query {
  const float* query = nullptr;  ///< [head_dim] scaled by 1 / sqrt(head_dim) before
  float* out = nullptr;          ///< [head_dim]
  int length = 0;                ///< positions, at least 1
  int first = 0;                 ///< below `length`: those before it are not attended to
};

/// How many queries are worth attending together.
inline constexpr int attention_queries = 16;

/// Floats that `attend` needs for itself, of runs of up to `positions` positions.
std::size_t attention_scratch(int positions, int padded_head_dim);

/// softmax(q K^T) V for queries that read one run, of whatever lengths. Several of them share what
/// is read of it: a block of positions stays in the nearest cache for all.
///
/// Every sum has one order, by position, whatever else is asked: scores run over head_dim in
/// ascending order, the sum of exponentials goes by lane, the sum of values by position modulo 4.
/// Nothing of a position at or beyond the length of a query reaches its result.
void attend(const attention_run& run, std::span<const attention_query> queries, float* scratch);

}  // namespace engine

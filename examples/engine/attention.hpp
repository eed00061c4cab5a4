// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace engine {

/// The run of positions that the query heads of one key-value head attend to.
struct attention_run {
  const float* keys = nullptr;    ///< [positions / 16][head_dim][16], see `kv_cache`
  const float* values = nullptr;  ///< [positions][padded_head_dim]
  int head_dim = 0;
  int padded_head_dim = 0;
  int length = 0;  ///< positions, at least 1
  int first = 0;   ///< below `length`: those before it are not attended to
};

/// softmax(q K^T) V for `heads` query heads that share a key-value head.
///
/// \param query  [heads, head_dim], scaled by 1 / sqrt(head_dim) before
/// \param out    [heads, head_dim]
/// \param scratch  room for 2 * (round_up(length, 16) + padded_head_dim) floats
///
/// Every sum has one order, by position: scores run over head_dim in ascending order, the sum of
/// exponentials goes by lane, the sum of values by position modulo 4.
void attend(const attention_run& run, int heads, const float* query, float* out, float* scratch);

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#include <engine/attention.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

#include <engine/simd.hpp>

namespace engine {
namespace {

/// Scores of H heads against B blocks of 16 positions.
template <int H, int B>
ENGINE_INLINE void score_blocks(const float* keys, int head_dim, const float* query, float* scores,
                                std::ptrdiff_t stride) {
  f32x16 sums[H][B];
  for (int h = 0; h < H; ++h) {
    for (int b = 0; b < B; ++b) { sums[h][b] = splat(0.0f); }
  }
  for (int d = 0; d < head_dim; ++d) {
    for (int b = 0; b < B; ++b) {
      const f32x16 key = load(keys + (b * head_dim + d) * lanes);
      for (int h = 0; h < H; ++h) {
        sums[h][b] = fma(key, splat(query[h * head_dim + d]), sums[h][b]);
      }
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int b = 0; b < B; ++b) { store(scores + h * stride + b * lanes, sums[h][b]); }
  }
}

template <int H>
void score(const attention_run& run, const float* query, float* scores, std::ptrdiff_t stride) {
  const int blocks = (run.length + lanes - 1) / lanes;
  const std::ptrdiff_t block_keys = static_cast<std::ptrdiff_t>(run.head_dim) * lanes;
  int b = 0;
  for (; b + 4 <= blocks; b += 4) {
    score_blocks<H, 4>(run.keys + b * block_keys, run.head_dim, query, scores + b * lanes, stride);
  }
  for (; b < blocks; ++b) {
    score_blocks<H, 1>(run.keys + b * block_keys, run.head_dim, query, scores + b * lanes, stride);
  }
}

/// Replaces scores by exponentials; returns the inverse of their sum. Lanes outside of [first,
/// length) become exponentials of -inf: zeros, which change no sum.
float exponentials(float* scores, int first, int length) {
  const int padded = round_up(length, lanes);
  std::fill(scores, scores + first, -std::numeric_limits<float>::infinity());
  std::fill(scores + length, scores + padded, -std::numeric_limits<float>::infinity());
  f32x16 largest = load(scores);
  for (int i = lanes; i < padded; i += lanes) { largest = max(load(scores + i), largest); }
  const f32x16 top = splat(maximum(largest));
  f32x16 total = splat(0.0f);
  for (int i = 0; i < padded; i += lanes) {
    const f32x16 e = exp(load(scores + i) - top);
    store(scores + i, e);
    total = total + e;
  }
  return 1.0f / sum(total);
}

/// The weighted sum of values, V registers wide, for H heads.
template <int H, int V>
ENGINE_INLINE void mix(const attention_run& run, const float* values, const float* weights,
                       std::ptrdiff_t stride, const float* inverse, float* out,
                       std::ptrdiff_t out_stride) {
  constexpr int ways = 4;  // independent chains, by position modulo 4
  f32x16 sums[ways][H][V];
  for (auto& way : sums) {
    for (auto& head : way) {
      for (auto& value : head) { value = splat(0.0f); }
    }
  }
  const auto step = [&](int way, int position) __attribute__((always_inline)) {
    for (int v = 0; v < V; ++v) {
      const f32x16 value =
          load(values + static_cast<std::ptrdiff_t>(position) * run.padded_head_dim + v * lanes);
      for (int h = 0; h < H; ++h) {
        sums[way][h][v] = fma(value, splat(weights[h * stride + position]), sums[way][h][v]);
      }
    }
  };
  int position = 0;
  for (; position + ways <= run.length; position += ways) {
    step(0, position);
    step(1, position + 1);
    step(2, position + 2);
    step(3, position + 3);
  }
  if (position < run.length) { step(0, position); }
  if (position + 1 < run.length) { step(1, position + 1); }
  if (position + 2 < run.length) { step(2, position + 2); }
  for (int h = 0; h < H; ++h) {
    for (int v = 0; v < V; ++v) {
      const f32x16 total = (sums[0][h][v] + sums[1][h][v]) + (sums[2][h][v] + sums[3][h][v]);
      store(out + h * out_stride + v * lanes, total * splat(inverse[h]));
    }
  }
}

template <int H>
void attend_heads(const attention_run& run, const float* query, float* out, float* scratch) {
  const std::ptrdiff_t stride = round_up(run.length, lanes);
  float* const mixed = scratch + H * stride;
  score<H>(run, query, scratch, stride);
  float inverse[H];
  for (int h = 0; h < H; ++h) {
    inverse[h] = exponentials(scratch + h * stride, run.first, run.length);
  }
  int v = 0;
  for (; v + 2 * lanes <= run.padded_head_dim; v += 2 * lanes) {
    mix<H, 2>(run, run.values + v, scratch, stride, inverse, mixed + v, run.padded_head_dim);
  }
  if (v < run.padded_head_dim) {
    mix<H, 1>(run, run.values + v, scratch, stride, inverse, mixed + v, run.padded_head_dim);
  }
  for (int h = 0; h < H; ++h) {
    std::copy_n(mixed + h * run.padded_head_dim, run.head_dim, out + h * run.head_dim);
  }
}

}  // namespace

void attend(const attention_run& run, int heads, const float* query, float* out, float* scratch) {
  int h = 0;
  for (; h + 2 <= heads; h += 2) {
    attend_heads<2>(run, query + h * run.head_dim, out + h * run.head_dim, scratch);
  }
  if (h < heads) {
    attend_heads<1>(run, query + h * run.head_dim, out + h * run.head_dim, scratch);
  }
}

}  // namespace engine

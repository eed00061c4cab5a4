// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <engine/simd.hpp>

/// \file
/// The steps between matrix products, on rows that are padded with zeros to a multiple of 16.

namespace engine {

/// `values`, and zeros to a multiple of 16.
inline std::vector<float> padded(std::vector<float> values) {
  values.resize(static_cast<std::size_t>(round_up(static_cast<int>(values.size()), lanes)));
  return values;
}

/// x[i] += y[i] for i in [first, last), multiples of 16.
inline void add_to(float* x, const float* y, int first, int last) {
  for (int i = first; i < last; i += lanes) { store(x + i, load(x + i) + load(y + i)); }
}

/// out = x / rms(x) * weight (Zhang and Sennrich, 2019), the mean over `size` values.
inline void rms_norm(const float* x, const float* weight, int size, float epsilon, float* out) {
  const int padded = round_up(size, lanes);
  f32x16 squares = splat(0.0f);
  for (int i = 0; i < padded; i += lanes) {
    const f32x16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  const f32x16 scale = splat(1.0f / std::sqrt(sum(squares) / static_cast<float>(size) + epsilon));
  for (int i = 0; i < padded; i += lanes) {
    store(out + i, load(x + i) * scale * load(weight + i));
  }
}

/// x = x / rms(x) * weight, of `size` values with others behind them.
inline void rms_norm_in_place(float* x, const float* weight, int size, float epsilon) {
  const int whole = size / lanes * lanes;
  f32x16 squares = splat(0.0f);
  for (int i = 0; i < whole; i += lanes) {
    const f32x16 v = load(x + i);
    squares = fma(v, v, squares);
  }
  float total = sum(squares);
  for (int i = whole; i < size; ++i) { total = std::fma(x[i], x[i], total); }
  const float scale = 1.0f / std::sqrt(total / static_cast<float>(size) + epsilon);
  for (int i = 0; i < whole; i += lanes) {
    store(x + i, load(x + i) * splat(scale) * load(weight + i));
  }
  for (int i = whole; i < size; ++i) { x[i] = x[i] * scale * weight[i]; }
}

/// x times its sigmoid.
ENGINE_INLINE f32x16 silu(f32x16 x) { return x / (splat(1.0f) + exp(splat(0.0f) - x)); }

/// x[i] = silu(x[i]) for i in [first, last), multiples of 16.
inline void silu(float* x, int first, int last) {
  for (int i = first; i < last; i += lanes) { store(x + i, silu(load(x + i))); }
}

/// out[i] = silu(gate[i]) * up[i] for i in [first, last), multiples of 16; `gates_and_ups` holds 16
/// gates, their 16 ups, the next 16 gates, and so on.
inline void swiglu(const float* gates_and_ups, int first, int last, float* out) {
  for (int i = first; i < last; i += lanes) {
    const f32x16 gate = load(gates_and_ups + 2 * i);
    const f32x16 up = load(gates_and_ups + 2 * i + lanes);
    store(out + i, silu(gate) * up);
  }
}

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#include <engine/multiply.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace engine {
namespace {

/// The most rows of a kernel, and how many of its block's tiles it works on at a time: as many sums
/// as there are registers for, next to the weights and one activation.
#if defined(__AVX512F__)
constexpr int max_rows = 6;
constexpr int tiles_at_once(int, int tiles) { return tiles; }
#else
constexpr int max_rows = 24 / (2 * detail::parts);
constexpr int tiles_at_once(int rows, int tiles) { return rows == 1 ? tiles : 1; }
#endif

/// How far ahead weights are fetched, in bytes: the hardware's prefetcher stops at every page.
constexpr std::ptrdiff_t prefetch_distance = 4096;
constexpr std::ptrdiff_t line = 64;

// The three arithmetics: what a step of the inner dimension does with R rows and T tiles.

struct f32_step {
  using weight = float;
  using activation = float;
  static constexpr int depth = 1;  ///< activations per step

  template <int R, int T>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const weight* w, const activation* x,
                                std::ptrdiff_t stride) {
    f32x16 values[T];
    for (int t = 0; t < T; ++t) { values[t] = load(w + t * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(x[r * stride]);
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
  }
};

struct bf16_fma_step {
  using weight = std::uint16_t;
  using activation = float;
  static constexpr int depth = 2;

  template <int R, int T>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const weight* w, const activation* x,
                                std::ptrdiff_t stride) {
    f32x16 values[T];
    for (int t = 0; t < T; ++t) { values[t] = load_even(w + t * 2 * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(x[r * stride]);
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
    for (int t = 0; t < T; ++t) { values[t] = load_odd(w + t * 2 * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(x[r * stride + 1]);
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
  }
};

#if defined(__AVX512BF16__)
struct bf16_dot_step {
  using weight = std::uint16_t;
  using activation = std::uint16_t;
  static constexpr int depth = 2;

  template <int R, int T>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const weight* w, const activation* x,
                                std::ptrdiff_t stride) {
    __m512i values[T];
    for (int t = 0; t < T; ++t) { values[t] = _mm512_loadu_si512(w + t * 2 * lanes); }
    for (int r = 0; r < R; ++r) {
      int pair = 0;
      std::memcpy(&pair, x + r * stride, sizeof pair);
      const __m512i factor = _mm512_set1_epi32(pair);
      for (int t = 0; t < T; ++t) {
        sums[r][t].v = _mm512_dpbf16_ps(sums[r][t].v, reinterpret_cast<__m512bh>(values[t]),
                                        reinterpret_cast<__m512bh>(factor));
      }
    }
  }
};
#endif

/// What a kernel needs to know, in units of elements.
template <class Step>
struct job {
  const typename Step::weight* w;
  const typename Step::activation* x;
  std::ptrdiff_t x_stride;
  float* y;
  std::ptrdiff_t y_stride;
  const float* scale;
  /// What to fetch while this runs: as many lines as the kernel reads, from `ahead`, which moves on
  /// by `ahead_step` bytes with every step.
  const char* ahead;
  std::ptrdiff_t ahead_step;
  int steps;
  into mode;
};

/// R rows times T adjacent tiles of a block of W tiles, from tile `first` on.
template <class Step, int R, int T, int W>
ENGINE_INLINE void tile_kernel(const job<Step>& j, int first) {
  f32x16 sums[R][T];
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) { sums[r][t] = splat(0.0f); }
  }
  constexpr int tile_weights = lanes * Step::depth;
  const typename Step::weight* w = j.w + first * tile_weights;
  const typename Step::activation* x = j.x;
  const char* ahead = j.ahead + first * line;
  for (int s = 0; s < j.steps; ++s) {
    for (int t = 0; t < T; ++t) { prefetch(ahead + t * line); }
    ahead += j.ahead_step;
    Step::run(sums, w, x, j.x_stride);
    w += W * tile_weights;
    x += Step::depth;
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) {
      const int output = (first + t) * lanes;
      float* const y = j.y + r * j.y_stride + output;
      f32x16 value = sums[r][t];
      if (j.scale != nullptr) { value = value * load(j.scale + output); }
      store(y, j.mode == into::add ? load(y) + value : value);
    }
  }
}

/// R rows times one block of W tiles.
template <class Step, int R, int W>
void block_kernel(const job<Step>& j) {
  constexpr int tiles = tiles_at_once(R, W);
  for (int first = 0; first < W; first += tiles) { tile_kernel<Step, R, tiles, W>(j, first); }
}

template <class Step>
using kernel = void (*)(const job<Step>&);

template <class Step, int T, std::size_t... R>
constexpr void fill_rows(kernel<Step> (&row)[max_rows], std::index_sequence<R...>) {
  ((row[R] = block_kernel<Step, static_cast<int>(R) + 1, T>), ...);
}

/// kernels[T - 1][R - 1]
template <class Step>
struct kernel_table {
  kernel<Step> entries[tiles_per_block][max_rows];

  constexpr kernel_table() : entries{} {
    constexpr auto rows = std::make_index_sequence<max_rows>{};
    static_assert(tiles_per_block == 4);
    fill_rows<Step, 1>(entries[0], rows);
    fill_rows<Step, 2>(entries[1], rows);
    fill_rows<Step, 3>(entries[2], rows);
    fill_rows<Step, 4>(entries[3], rows);
  }
};

template <class Step>
void multiply_blocks(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t y_stride,
                     int rows, into mode, int first_block, int last_block) {
  static constexpr kernel_table<Step> kernels;
  const auto* weights = reinterpret_cast<const typename Step::weight*>(w.data());
  const std::ptrdiff_t block_weights =
      static_cast<std::ptrdiff_t>(w.steps()) * Step::depth * outputs_per_block;
  job<Step> j{};
  j.x_stride = static_cast<std::ptrdiff_t>(x.row_bytes / sizeof(typename Step::activation));
  j.y_stride = y_stride;
  j.steps = w.steps();
  j.mode = mode;
  // Groups of nearly equal size: a group of one costs almost as much as one of six. All groups
  // use a block while it is in the nearest caches, and each fetches its part of the next one: so
  // memory is as busy under the last group as under the first.
  const int groups = (rows + max_rows - 1) / max_rows;
  for (int block = first_block; block < last_block; ++block) {
    const int tiles = std::min(tiles_per_block, w.tiles() - block * tiles_per_block);
    j.w = weights + block * block_weights;
    j.scale = w.scale() == nullptr ? nullptr : w.scale() + block * outputs_per_block;
    for (int group = 0; group < groups; ++group) {
      const int begin = rows * group / groups;
      const int end = rows * (group + 1) / groups;
      j.x = reinterpret_cast<const typename Step::activation*>(x.row(begin));
      j.y = y + begin * y_stride + block * outputs_per_block;
      const std::ptrdiff_t step_bytes = tiles * line;
      j.ahead = reinterpret_cast<const char*>(j.w);
      if (groups == 1) {
        j.ahead += prefetch_distance;
        j.ahead_step = step_bytes;
      } else {
        j.ahead += step_bytes * j.steps + step_bytes * j.steps / groups * group;
        j.ahead_step = step_bytes / groups;
      }
      kernels.entries[tiles - 1][end - begin - 1](j);
    }
  }
}

}  // namespace

std::size_t activation_bytes(arithmetic kind, int inputs) {
  const std::size_t size = kind == arithmetic::bf16_dot ? 2 : 4;
  return (static_cast<std::size_t>(round_up(inputs, lanes)) * size + 63) / 64 * 64;
}

void store_activations(arithmetic kind, f32x16 values, std::byte* row, int first) {
  if (kind != arithmetic::bf16_dot) {
    store(reinterpret_cast<float*>(row) + first, values);
    return;
  }
#if defined(__AVX512BF16__)
  const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(reinterpret_cast<std::uint16_t*>(row) + first),
                      bits);
#endif
}

void store_activations(arithmetic kind, const float* values, int padded, std::byte* row) {
  for (int i = 0; i < padded; i += lanes) { store_activations(kind, load(values + i), row, i); }
}

void multiply(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t y_stride,
              int rows, into mode, int first_block, int last_block) {
  if (rows == 0) { return; }
  switch (w.kind()) {
    case arithmetic::f32:
      return multiply_blocks<f32_step>(w, x, y, y_stride, rows, mode, first_block, last_block);
    case arithmetic::bf16_fma:
      return multiply_blocks<bf16_fma_step>(w, x, y, y_stride, rows, mode, first_block, last_block);
    case arithmetic::bf16_dot:
#if defined(__AVX512BF16__)
      return multiply_blocks<bf16_dot_step>(w, x, y, y_stride, rows, mode, first_block, last_block);
#else
      return;
#endif
  }
}

}  // namespace engine

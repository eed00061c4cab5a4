// SPDX-License-Identifier: Apache-2.0
#include <engine/multiply.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace engine {
namespace {

/// The most rows of a kernel, and how many of its block's tiles it works on at a time: as many sums
/// as there are registers for, next to the weights and one activation.
#if defined(__AVX512F__)
constexpr int max_rows(arithmetic kind) {
  // Those of integers have a sum of a group besides.
  return kind == arithmetic::int8 || kind == arithmetic::int4 ? 4 : 6;
}
constexpr int tiles_at_once(int, int tiles) { return tiles; }
#else
constexpr int max_rows(arithmetic) { return 24 / (2 * detail::parts); }
constexpr int tiles_at_once(int rows, int tiles) {
  if (rows == 1) { return tiles; }
  return rows <= 3 && tiles % 2 == 0 ? 2 : 1;
}
#endif

/// Whether a kernel of so many rows fetches weights as far as the second cache only. `bf16_dot` is
/// done with a line in as many cycles as there are rows, the others in twice as many. So it
/// waits for memory unless lines come from far ahead, which would drive out of the first cache what
/// is needed sooner: a block alone fills it. (Zen 4: eight rows 1.3 times as fast; the others are
/// slower by a few percent where lines are not in the first cache.)
constexpr bool fetches_far(arithmetic kind, int rows) {
  return kind == arithmetic::bf16_dot && rows > 2;
}

/// How far ahead, in bytes: the hardware's prefetcher stops at every page. One row or two take no
/// longer than memory does, whatever is done with them.
constexpr std::ptrdiff_t prefetch_distance(arithmetic kind, int rows) {
  if (fetches_far(kind, rows)) { return 16384; }
  return rows > 2 ? 4096 : 8192;
}
constexpr std::ptrdiff_t line = 64;

[[maybe_unused]] ENGINE_INLINE int load_word(const void* from) {
  int word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The arithmetics: what a step of the inner dimension does with R rows and T of the W tiles of a
// block, from tile `first` on. Rows of activations are `stride` bytes apart.

struct f32_step {
  static constexpr arithmetic kind = arithmetic::f32;
  static constexpr int activation_bytes = 4;  ///< of a step

  template <int R, int T, int W>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const std::byte* w, int first,
                                const std::byte* x, std::ptrdiff_t stride) {
    const auto* const weights = reinterpret_cast<const float*>(w) + first * lanes;
    f32x16 values[T];
    for (int t = 0; t < T; ++t) { values[t] = load(weights + t * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(*reinterpret_cast<const float*>(x + r * stride));
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
  }
};

struct bf16_fma_step {
  static constexpr arithmetic kind = arithmetic::bf16_fma;
  static constexpr int activation_bytes = 8;

  template <int R, int T, int W>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const std::byte* w, int first,
                                const std::byte* x, std::ptrdiff_t stride) {
    const auto* const weights = reinterpret_cast<const std::uint16_t*>(w) + first * 2 * lanes;
    f32x16 values[T];
    for (int t = 0; t < T; ++t) { values[t] = load_even(weights + t * 2 * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(reinterpret_cast<const float*>(x + r * stride)[0]);
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
    for (int t = 0; t < T; ++t) { values[t] = load_odd(weights + t * 2 * lanes); }
    for (int r = 0; r < R; ++r) {
      const f32x16 factor = splat(reinterpret_cast<const float*>(x + r * stride)[1]);
      for (int t = 0; t < T; ++t) { sums[r][t] = fma(values[t], factor, sums[r][t]); }
    }
  }
};

#if defined(__AVX512BF16__)
struct bf16_dot_step {
  static constexpr arithmetic kind = arithmetic::bf16_dot;
  static constexpr int activation_bytes = 4;

  template <int R, int T, int W>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const std::byte* w, int first,
                                const std::byte* x, std::ptrdiff_t stride) {
    __m512i values[T];
    for (int t = 0; t < T; ++t) { values[t] = _mm512_loadu_si512(w + (first + t) * line); }
    for (int r = 0; r < R; ++r) {
      const __m512i factor = _mm512_set1_epi32(load_word(x + r * stride));
      for (int t = 0; t < T; ++t) {
        sums[r][t].v = _mm512_dpbf16_ps(sums[r][t].v, reinterpret_cast<__m512bh>(values[t]),
                                        reinterpret_cast<__m512bh>(factor));
      }
    }
  }
};
#endif

/// Activations of a group.
struct group_activations {
  std::int8_t values[group_size];
  float scale;
  std::int32_t sum;  ///< of the values: weights are stored with a number added to each
};

/// Integer sums of groups do not depend on their order; the sum over groups ascends.
struct int8_step {
  static constexpr arithmetic kind = arithmetic::int8;
  static constexpr int activation_bytes = sizeof(group_activations);

  template <int R, int T, int W>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const std::byte* w, int first,
                                const std::byte* x, std::ptrdiff_t stride) {
    for (int t = 0; t < T; ++t) {
      const group_activations* rows[R];
      for (int r = 0; r < R; ++r) {
        rows[r] = reinterpret_cast<const group_activations*>(x + r * stride);
      }
      f32x16 dots[R];
      group_dots<R>(w + (first + t) * tile_bytes(kind), rows, dots);
      for (int r = 0; r < R; ++r) { sums[r][t] = fma(dots[r], splat(rows[r]->scale), sums[r][t]); }
    }
  }

  /// The dot products of a tile's groups with those of R rows, exact.
  template <int R>
  static ENGINE_INLINE void group_dots(const std::byte* bytes,
                                       const group_activations* const (&rows)[R],
                                       f32x16 (&dots)[R]) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    __m512i dot[R];
    for (int r = 0; r < R; ++r) { dot[r] = _mm512_set1_epi32(-128 * rows[r]->sum); }
    for (int q = 0; q < group_size / 4; ++q) {
      const __m512i weights = _mm512_loadu_si512(bytes + q * line);
      for (int r = 0; r < R; ++r) {
        dot[r] = _mm512_dpbusd_epi32(dot[r], weights,
                                     _mm512_set1_epi32(load_word(rows[r]->values + q * 4)));
      }
    }
    for (int r = 0; r < R; ++r) { dots[r].v = _mm512_maskz_cvtepi32_ps(all_lanes, dot[r]); }
#elif defined(__AVX2__)
    // A pair of products fits 16 bits where the weight has its sign and its size apart.
    static_assert(2 * 128 * 127 <= std::numeric_limits<std::int16_t>::max());
    __m256i dot[R][detail::parts];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < detail::parts; ++i) { dot[r][i] = _mm256_setzero_si256(); }
    }
    for (int q = 0; q < group_size / 4; ++q) {
      __m256i weights[detail::parts], sizes[detail::parts];
      for (int i = 0; i < detail::parts; ++i) {
        const __m256i stored = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(bytes + q * line + i * (line / detail::parts)));
        weights[i] = _mm256_xor_si256(stored, _mm256_set1_epi8(-128));
        sizes[i] = _mm256_abs_epi8(weights[i]);
      }
      for (int r = 0; r < R; ++r) {
        const __m256i values = _mm256_set1_epi32(load_word(rows[r]->values + q * 4));
        for (int i = 0; i < detail::parts; ++i) {
          const __m256i pairs =
              _mm256_maddubs_epi16(sizes[i], _mm256_sign_epi8(values, weights[i]));
          dot[r][i] = _mm256_add_epi32(dot[r][i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < detail::parts; ++i) { dots[r].v[i] = _mm256_cvtepi32_ps(dot[r][i]); }
    }
#else
    for (int r = 0; r < R; ++r) {
      std::int32_t dot[lanes];
      std::fill_n(dot, lanes, -128 * rows[r]->sum);
      for (int k = 0; k < group_size; ++k) {
        const int value = rows[r]->values[k];
        const std::byte* const from = bytes + k / 4 * line + k % 4;
        for (int i = 0; i < lanes; ++i) { dot[i] += std::to_integer<int>(from[i * 4]) * value; }
      }
      float out[lanes];
      for (int i = 0; i < lanes; ++i) { out[i] = static_cast<float>(dot[i]); }
      dots[r] = load(out);
    }
#endif
  }
};

struct int4_step {
  static constexpr arithmetic kind = arithmetic::int4;
  static constexpr int activation_bytes = sizeof(group_activations);

  template <int R, int T, int W>
  static ENGINE_INLINE void run(f32x16 (&sums)[R][T], const std::byte* w, int first,
                                const std::byte* x, std::ptrdiff_t stride) {
    for (int t = 0; t < T; ++t) {
      const std::byte* const nibbles = w + (first + t) * 256;
      const f32x16 weight_scale = load_bf16(w + W * 256 + (first + t) * 32);
      const group_activations* rows[R];
      for (int r = 0; r < R; ++r) {
        rows[r] = reinterpret_cast<const group_activations*>(x + r * stride);
      }
      f32x16 dots[R];
      group_dots<R>(nibbles, rows, dots);
      for (int r = 0; r < R; ++r) {
        sums[r][t] = fma(dots[r], weight_scale * splat(rows[r]->scale), sums[r][t]);
      }
    }
  }

  /// The dot products of a tile's groups with those of R rows, exact.
  template <int R>
  static ENGINE_INLINE void group_dots(const std::byte* nibbles,
                                       const group_activations* const (&rows)[R],
                                       f32x16 (&dots)[R]) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    const __m512i lower = _mm512_set1_epi8(15);
    __m512i dot[R];
    for (int r = 0; r < R; ++r) { dot[r] = _mm512_set1_epi32(-8 * rows[r]->sum); }
    for (int q = 0; q < group_size / 8; ++q) {
      const __m512i both = _mm512_loadu_si512(nibbles + q * line);
      const __m512i even = _mm512_and_si512(both, lower);
      const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(all_lanes, both, 4), lower);
      for (int r = 0; r < R; ++r) {
        const std::int8_t* const values = rows[r]->values + q * 8;
        dot[r] = _mm512_dpbusd_epi32(dot[r], even, _mm512_set1_epi32(load_word(values)));
        dot[r] = _mm512_dpbusd_epi32(dot[r], odd, _mm512_set1_epi32(load_word(values + 4)));
      }
    }
    for (int r = 0; r < R; ++r) { dots[r].v = _mm512_maskz_cvtepi32_ps(all_lanes, dot[r]); }
#elif defined(__AVX2__)
    // Sums of 16 bits hold all products of a group.
    static_assert(group_size * 15 * 127 / 2 <= std::numeric_limits<std::int16_t>::max());
    const __m256i lower = _mm256_set1_epi8(15);
    __m256i sums[R][detail::parts];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < detail::parts; ++i) { sums[r][i] = _mm256_setzero_si256(); }
    }
    for (int q = 0; q < group_size / 8; ++q) {
      __m256i even[detail::parts], odd[detail::parts];
      for (int i = 0; i < detail::parts; ++i) {
        const __m256i both = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(nibbles + q * line + i * (line / detail::parts)));
        even[i] = _mm256_and_si256(both, lower);
        odd[i] = _mm256_and_si256(_mm256_srli_epi16(both, 4), lower);
      }
      for (int r = 0; r < R; ++r) {
        const __m256i first = _mm256_set1_epi32(load_word(rows[r]->values + q * 8));
        const __m256i second = _mm256_set1_epi32(load_word(rows[r]->values + q * 8 + 4));
        for (int i = 0; i < detail::parts; ++i) {
          sums[r][i] = _mm256_add_epi16(sums[r][i], _mm256_maddubs_epi16(even[i], first));
          sums[r][i] = _mm256_add_epi16(sums[r][i], _mm256_maddubs_epi16(odd[i], second));
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      const __m256i start = _mm256_set1_epi32(-8 * rows[r]->sum);
      for (int i = 0; i < detail::parts; ++i) {
        const __m256i dot = _mm256_madd_epi16(sums[r][i], _mm256_set1_epi16(1));
        dots[r].v[i] = _mm256_cvtepi32_ps(_mm256_add_epi32(dot, start));
      }
    }
#else
    for (int r = 0; r < R; ++r) {
      std::int32_t dot[lanes];
      std::fill_n(dot, lanes, -8 * rows[r]->sum);
      for (int k = 0; k < group_size; ++k) {
        const int value = rows[r]->values[k];
        const std::byte* const from = nibbles + k / 8 * line + k % 4;
        const int shift = k % 8 / 4 * 4;
        for (int i = 0; i < lanes; ++i) {
          dot[i] += (std::to_integer<int>(from[i * 4]) >> shift & 15) * value;
        }
      }
      float out[lanes];
      for (int i = 0; i < lanes; ++i) { out[i] = static_cast<float>(dot[i]); }
      dots[r] = load(out);
    }
#endif
  }
};

/// What a kernel needs to know.
struct job {
  const std::byte* w;
  const std::byte* x;
  std::ptrdiff_t x_stride;  ///< bytes
  float* y;
  std::ptrdiff_t y_stride;
  const float* scale;
  /// What to fetch while this runs: as many lines as the kernel reads, from `ahead`, which moves on
  /// by `ahead_step` bytes with every step.
  const std::byte* ahead;
  std::ptrdiff_t ahead_step;
  int steps;
  into mode;
};

/// R rows times T adjacent tiles of a block of W tiles, from tile `first` on.
template <class Step, int R, int T, int W>
ENGINE_INLINE void tile_kernel(const job& j, int first) {
  f32x16 sums[R][T];
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) { sums[r][t] = splat(0.0f); }
  }
  constexpr int step_size = step_bytes(Step::kind, W);
  constexpr int lines = static_cast<int>(step_size / line * T / W);
  const std::byte* w = j.w;
  const std::byte* x = j.x;
  const std::byte* ahead = j.ahead + first / T * lines * line;
  for (int s = 0; s < j.steps; ++s) {
    for (int i = 0; i < lines; ++i) { prefetch<fetches_far(Step::kind, R)>(ahead + i * line); }
    ahead += j.ahead_step;
    Step::template run<R, T, W>(sums, w, first, x, j.x_stride);
    w += step_size;
    x += Step::activation_bytes;
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
void block_kernel(const job& j) {
  constexpr int tiles = tiles_at_once(R, W);
  for (int first = 0; first < W; first += tiles) { tile_kernel<Step, R, tiles, W>(j, first); }
}

using kernel = void (*)(const job&);

template <class Step, int T, std::size_t... R>
constexpr void fill_rows(kernel* row, std::index_sequence<R...>) {
  ((row[R] = block_kernel<Step, static_cast<int>(R) + 1, T>), ...);
}

/// kernels[T - 1][R - 1]
template <class Step>
struct kernel_table {
  kernel entries[tiles_per_block][max_rows(Step::kind)];

  constexpr kernel_table() : entries{} {
    constexpr auto rows = std::make_index_sequence<max_rows(Step::kind)>{};
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
  job j{};
  j.x_stride = static_cast<std::ptrdiff_t>(x.row_bytes);
  j.y_stride = y_stride;
  j.steps = w.steps();
  j.mode = mode;
  // Groups of nearly equal size: a group of one costs almost as much as a full one. All groups
  // use a block while it is in the nearest caches, and each fetches its part of the next one: so
  // memory is as busy under the last group as under the first.
  constexpr int most = max_rows(Step::kind);
  const int groups = (rows + most - 1) / most;
  const std::ptrdiff_t block_bytes =
      std::ptrdiff_t{j.steps} * step_bytes(Step::kind, tiles_per_block);
  for (int block = first_block; block < last_block; ++block) {
    const int tiles = std::min(tiles_per_block, w.tiles() - block * tiles_per_block);
    j.w = w.data() + block * block_bytes;
    j.scale = w.scale() == nullptr ? nullptr : w.scale() + block * outputs_per_block;
    for (int group = 0; group < groups; ++group) {
      const int begin = rows * group / groups;
      const int end = rows * (group + 1) / groups;
      j.x = x.row(begin);
      j.y = y + begin * y_stride + block * outputs_per_block;
      const std::ptrdiff_t step_size = step_bytes(Step::kind, tiles);
      j.ahead = j.w;
      if (groups == 1) {
        j.ahead += prefetch_distance(Step::kind, rows);
        j.ahead_step = step_size;
      } else {
        j.ahead += step_size * j.steps + step_size * j.steps / groups * group;
        j.ahead_step = step_size / groups;
      }
      kernels.entries[tiles - 1][end - begin - 1](j);
    }
  }
}

#if defined(__AVX512BF16__)
void store_bf16(const float* values, int padded, std::byte* row) {
  for (int i = 0; i < padded; i += lanes) {
    const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(load(values + i).v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + i * 2), bits);
  }
}
#endif

/// The largest becomes 127. A NaN or an infinity makes the whole product NaN.
ENGINE_INLINE void store_group(const float* values, group_activations& to) {
  std::uint32_t top = 0;
  for (int k = 0; k < group_size; ++k) {
    top = std::max(top, std::bit_cast<std::uint32_t>(values[k]) & 0x7fffffffu);
  }
  const float largest = std::bit_cast<float>(top);
  if (!std::isfinite(largest) || largest < 0x1p-100f) {
    to = {};
    if (!std::isfinite(largest)) { to.scale = std::numeric_limits<float>::quiet_NaN(); }
    return;
  }
  const f32x16 inverse = splat(127.0f / largest);
  const f32x16 magic = splat(12582912.0f);  // 1.5 * 2^23 leaves the nearest integer
  float rounded[group_size];
  for (int k = 0; k < group_size; k += lanes) {
    store(rounded + k, fma(load(values + k), inverse, magic) - magic);
  }
  std::int32_t sum = 0;
  for (int k = 0; k < group_size; ++k) {
    const auto value = static_cast<std::int32_t>(rounded[k]);
    to.values[k] = static_cast<std::int8_t>(value);
    sum += value;
  }
  to.scale = largest / 127.0f;
  to.sum = sum;
}

/// Each group is made where it belongs: what was written in parts could not be read as a whole
/// before it has left the processor's queue.
void store_groups(const float* values, int padded, std::byte* row) {
  int first = 0;
  for (; first + group_size <= padded; first += group_size, row += sizeof(group_activations)) {
    store_group(values + first, *new (row) group_activations);
  }
  if (first < padded) {
    float rest[group_size] = {};
    std::copy(values + first, values + padded, rest);
    store_group(rest, *new (row) group_activations);
  }
}

}  // namespace

std::size_t activation_bytes(arithmetic kind, int inputs) {
  const auto padded = static_cast<std::size_t>(round_up(inputs, group_size));
  const bool in_groups = step_inputs(kind) == group_size;
  const std::size_t bytes = in_groups ? padded / group_size * sizeof(group_activations)
                                      : padded * (kind == arithmetic::bf16_dot ? 2 : 4);
  return (bytes + 63) / 64 * 64;
}

void store_activations(arithmetic kind, const float* values, int padded, std::byte* row) {
  switch (kind) {
    case arithmetic::f32:
    case arithmetic::bf16_fma:
      std::memcpy(row, values, static_cast<std::size_t>(padded) * sizeof(float));
      return;
    case arithmetic::bf16_dot:
#if defined(__AVX512BF16__)
      store_bf16(values, padded, row);
#endif
      return;
    case arithmetic::int8:
    case arithmetic::int4:
      store_groups(values, padded, row);
      return;
  }
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
    case arithmetic::int8:
      return multiply_blocks<int8_step>(w, x, y, y_stride, rows, mode, first_block, last_block);
    case arithmetic::int4:
      return multiply_blocks<int4_step>(w, x, y, y_stride, rows, mode, first_block, last_block);
  }
}

}  // namespace engine

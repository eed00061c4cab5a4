// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <hunch/bfloat16.hpp>
#include <hunch/config.hpp>
#include <hunch/float16.hpp>

/// \file
/// Dot products of head rows with a hidden state, in the one order of additions that all threads
/// share: what `range_gemv` and the head over shortlists are made of.

namespace hunch::kernel {

/// The most head rows that one thread works on at a time.
inline constexpr std::int32_t gemv_rows = 8;

namespace detail {

inline constexpr std::int32_t gemv_lanes = 16;

/// A step is four bytes per lane: lane l of step s adds the elements (s * 16 + l) * e, ... of e =
/// 1, 2 or 4 elements, in order, and the lanes fold by halves. So a logit depends neither on the
/// other rows of the shortlist nor on the batch.
template <class Weight>
inline constexpr std::int32_t elements_per_lane = 4 / static_cast<std::int32_t>(sizeof(Weight));
template <class Weight>
inline constexpr std::int32_t step_elements = gemv_lanes* elements_per_lane<Weight>;

#if defined(__GNUC__) && !defined(__CUDA_ARCH__)

// Vector types of the compiler, not of a processor: on a narrower machine they are split. Plain
// loops over arrays of lanes are left in memory by some compilers, ten times slower.
using lane_floats = float __attribute__((vector_size(64)));
using lane_words = std::uint32_t __attribute__((vector_size(64)));
using lane_integers = std::int32_t __attribute__((vector_size(64)));
using eight_floats = float __attribute__((vector_size(32)));

// Vectors go in and out by reference: by value their calling convention would depend on the
// processor, which compilers warn about.

template <class Vector>
HUNCH_INLINE void load_vector(const void* p, Vector& v) {
  __builtin_memcpy(&v, p, sizeof v);
}

/// Where the lines of rows begin that are asked for in one step.
using line_address = std::uintptr_t;

HUNCH_INLINE void load_soon(line_address at) {
  __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 3);
}

/// Loads line r of a step; asks for line r of those at `ahead`.
template <class Vector>
HUNCH_INLINE void read_line(const void* p, line_address ahead, std::int32_t r, Vector& v) {
  load_soon(ahead + static_cast<line_address>(r) * sizeof v);
  load_vector(p, v);
}
/// The same for what is used more than once: compilers would read it again at every use.
template <class Vector>
HUNCH_INLINE void read_line_once(const void* p, line_address ahead, std::int32_t r, Vector& v) {
  read_line(p, ahead, r, v);
#if defined(__AVX512F__)
  asm("" : "+v"(v));
#endif
}

/// The sums of rows with a few hidden states, as lanes.
template <std::int32_t Rows, std::int32_t States>
using state_lanes = lane_floats[States][Rows];

/// lane[s][r] += row r of `w` times hidden[s], from element k on, over one step of elements: a line
/// of each row. Asks for as many lines at `ahead`.
template <std::int32_t Rows, std::int32_t States>
HUNCH_INLINE void add_step(const float* w, std::int64_t width, const float* const (&hidden)[States],
                           std::int64_t k, line_address ahead, state_lanes<Rows, States>& lane) {
  lane_floats h[States], values;
  for (std::int32_t s = 0; s < States; ++s) { load_vector(hidden[s] + k, h[s]); }
  for (std::int32_t r = 0; r < Rows; ++r) {
    read_line(w + r * width + k, ahead, r, values);
    for (std::int32_t s = 0; s < States; ++s) { lane[s][r] += values * h[s]; }
  }
}

/// out = the even, or the odd, elements of 32 floats.
HUNCH_INLINE void every_second(const lane_floats& first, const lane_floats& second,
                               lane_floats& even, lane_floats& odd) {
  even = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                 28, 30);
  odd = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                29, 31);
}

/// Two bfloat16 in a word are two floats after a shift and a mask; widening them as vectors of
/// halves takes compilers three times the instructions.
HUNCH_INLINE void widen(const bfloat16*, const lane_words& words, lane_floats& low,
                        lane_floats& high) {
  const lane_words below = words << 16;
  const lane_words above = words & 0xffff0000u;
  load_vector(&below, low);
  load_vector(&above, high);
}

/// `to_float` of the float16 in the lower half of each word.
HUNCH_INLINE void widen_half(const lane_words& words, lane_floats& values) {
  const lane_words magnitude = (words & 0x7fffu) << 13;
  load_vector(&magnitude, values);
  values *= 0x1p112f;
  lane_words bits;
  load_vector(&values, bits);
  const lane_words special = (lane_words)((words & 0x7c00u) == 0x7c00u) & 0x7f800000u;
  bits |= special | (words & 0x8000u) << 16;
  load_vector(&bits, values);
}
HUNCH_INLINE void widen(const float16*, const lane_words& words, lane_floats& low,
                        lane_floats& high) {
  widen_half(words, low);
  widen_half(words >> 16, high);
}

template <std::int32_t Rows, std::int32_t States, class Half>
requires(sizeof(Half) == 2)
    HUNCH_INLINE void add_step(const Half* w, std::int64_t width,
                               const float* const (&hidden)[States], std::int64_t k,
                               line_address ahead, state_lanes<Rows, States>& lane) {
  lane_floats first, second, even[States], odd[States], low, high;
  for (std::int32_t s = 0; s < States; ++s) {
    load_vector(hidden[s] + k, first);
    load_vector(hidden[s] + k + gemv_lanes, second);
    every_second(first, second, even[s], odd[s]);
  }
  lane_words words;
  for (std::int32_t r = 0; r < Rows; ++r) {
    read_line_once(w + r * width + k, ahead, r, words);
    widen(w, words, low, high);
    for (std::int32_t s = 0; s < States; ++s) {
      lane[s][r] += low * even[s];
      lane[s][r] += high * odd[s];
    }
  }
}

/// out = elements J, J + 4, ... of 64 floats.
template <int J>
HUNCH_INLINE void every_fourth(const lane_floats (&in)[4], lane_floats& out) {
  constexpr int K = 16 + J;
  const lane_floats low = __builtin_shufflevector(in[0], in[1], J, J + 4, J + 8, J + 12, K, K + 4,
                                                  K + 8, K + 12, 0, 0, 0, 0, 0, 0, 0, 0);
  const lane_floats high = __builtin_shufflevector(in[2], in[3], J, J + 4, J + 8, J + 12, K, K + 4,
                                                   K + 8, K + 12, 0, 0, 0, 0, 0, 0, 0, 0);
  out = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}

/// Four bytes in a word are four integers of 2^24 times their values once the others are cleared,
/// which is less than to shift each down again; the hidden state makes up for it.
template <std::int32_t Rows, std::int32_t States>
HUNCH_INLINE void add_step(const std::int8_t* w, std::int64_t width,
                           const float* const (&hidden)[States], std::int64_t k, line_address ahead,
                           state_lanes<Rows, States>& lane) {
  lane_floats in[4], h[States][4], values[4];
  for (std::int32_t s = 0; s < States; ++s) {
    for (int i = 0; i < 4; ++i) { load_vector(hidden[s] + k + i * gemv_lanes, in[i]); }
    every_fourth<0>(in, h[s][0]);
    every_fourth<1>(in, h[s][1]);
    every_fourth<2>(in, h[s][2]);
    every_fourth<3>(in, h[s][3]);
    for (lane_floats& x : h[s]) { x *= 0x1p-24f; }
  }
  constexpr std::int32_t top = std::numeric_limits<std::int32_t>::min() >> 7;
  lane_integers words;
  for (std::int32_t r = 0; r < Rows; ++r) {
    read_line_once(w + r * width + k, ahead, r, words);
    values[0] = __builtin_convertvector(words << 24, lane_floats);
    values[1] = __builtin_convertvector((words << 16) & top, lane_floats);
    values[2] = __builtin_convertvector((words << 8) & top, lane_floats);
    values[3] = __builtin_convertvector(words & top, lane_floats);
    for (std::int32_t s = 0; s < States; ++s) {
      for (int i = 0; i < 4; ++i) { lane[s][r] += values[i] * h[s][i]; }
    }
  }
}

/// sum = the lanes of two vectors, folded by 8, 4 or 2 places: the first half of `sum` is a's.
template <std::int32_t Half>
HUNCH_INLINE void fold(const lane_floats& a, const lane_floats& b, lane_floats& sum) {
  if constexpr (Half == 8) {
    sum =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  } else if constexpr (Half == 4) {
    sum = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
          __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  } else {
    sum = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
          __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
  }
}

/// Folds the lanes of 1, 2, 4 or 8 rows by halves, two rows in one vector at a time, where there
/// are two.
template <std::int32_t Rows>
HUNCH_INLINE void fold_rows(const lane_floats (&v)[Rows], float* sums) {
  constexpr std::int32_t pairs = Rows < 2 ? 1 : Rows / 2;
  constexpr std::int32_t fours = Rows < 4 ? 1 : Rows / 4;
  lane_floats by8[pairs], by4[fours], by2;
  for (std::int32_t i = 0; i < pairs; ++i) { fold<8>(v[2 * i], v[(2 * i + 1) % Rows], by8[i]); }
  for (std::int32_t i = 0; i < fours; ++i) {
    fold<4>(by8[2 * i], by8[(2 * i + 1) % pairs], by4[i]);
  }
  fold<2>(by4[0], by4[fours - 1], by2);
  const eight_floats result = __builtin_shufflevector(by2, by2, 0, 2, 4, 6, 8, 10, 12, 14) +
                              __builtin_shufflevector(by2, by2, 1, 3, 5, 7, 9, 11, 13, 15);
  __builtin_memcpy(sums, &result, Rows * sizeof(float));
}

/// The first `there` < a step of elements of what `from` holds, then zeros.
template <class Value, std::int32_t Step>
HUNCH_INLINE void pad(const Value* from, std::int64_t there, Value (&to)[Step]) {
  for (std::int32_t i = 0; i < Step; ++i) { to[i] = i < there ? from[i] : Value{}; }
}

/// sums[s][r] = row r of 1 to 8 adjacent head rows . hidden[s]. What is asked for meanwhile are
/// lines of `ahead`, as many as are read.
template <std::int32_t Rows, std::int32_t States, class Weight, class Ahead>
HUNCH_INLINE void dot_rows(const Weight* w, std::int64_t width,
                           const float* const (&hidden)[States], Ahead& ahead,
                           float* const (&sums)[States]) {
  constexpr std::int32_t step = step_elements<Weight>;
  state_lanes<Rows, States> lane = {};
  std::int64_t k = 0;
  for (; k + step <= width; k += step) {
    add_step<Rows>(w, width, hidden, k, ahead.template take<Rows>(w + k), lane);
  }
  if (k < width) {
    // Adding zeros changes nothing.
    Weight rest[Rows][step];
    for (std::int32_t r = 0; r < Rows; ++r) { pad(w + r * width + k, width - k, rest[r]); }
    float rest_of[States][step];
    const float* rest_of_hidden[States];
    for (std::int32_t s = 0; s < States; ++s) {
      pad(hidden[s] + k, width - k, rest_of[s]);
      rest_of_hidden[s] = rest_of[s];
    }
    add_step<Rows>(rest[0], step, rest_of_hidden, 0, reinterpret_cast<line_address>(rest), lane);
  }
  for (std::int32_t s = 0; s < States; ++s) { fold_rows(lane[s], sums[s]); }
}

inline constexpr bool has_vectors = true;

#else

template <std::int32_t Rows, std::int32_t States, class Weight, class Ahead>
HUNCH_HOST_DEVICE void dot_rows(const Weight*, std::int64_t, const float* const (&)[States], Ahead&,
                                float* const (&)[States]) {}

inline constexpr bool has_vectors = false;

#endif

/// The dot product of one head row with one hidden state, in the same order of additions.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float dot_one(const Weight* w, std::int64_t width,
                                             const float* hidden) {
  // A lane by a number known to the compiler, so that lanes are registers everywhere.
  constexpr std::int32_t each = elements_per_lane<Weight>;
  float lane[gemv_lanes] = {};
  std::int64_t k = 0;
  for (; k + step_elements<Weight> <= width; k += step_elements<Weight>) {
    for (std::int32_t i = 0; i < step_elements<Weight>; ++i) {
      lane[i / each] += to_float(w[k + i]) * hidden[k + i];
    }
  }
  for (std::int32_t i = 0; i < step_elements<Weight>; ++i) {
    if (k + i < width) { lane[i / each] += to_float(w[k + i]) * hidden[k + i]; }
  }
  for (std::int32_t half = gemv_lanes / 2; half > 0; half /= 2) {
    for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
  }
  return lane[0];
}

/// Lane `l` of that product.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float dot_lane(const Weight* w, std::int64_t width,
                                              const float* hidden, std::int32_t l) {
  float lane = 0.0f;
  for (std::int64_t k = l * elements_per_lane<Weight>; k < width; k += step_elements<Weight>) {
    for (std::int64_t i = k; i < k + elements_per_lane<Weight>; ++i) {
      if (i < width) { lane += to_float(w[i]) * hidden[i]; }
    }
  }
  return lane;
}

}  // namespace detail

}  // namespace hunch::kernel

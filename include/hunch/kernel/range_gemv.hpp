// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/bfloat16.hpp>
#include <hunch/config.hpp>
#include <hunch/float16.hpp>
#include <hunch/kernel/arithmetic.hpp>
#include <hunch/kernel/head_weights.hpp>
#include <hunch/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// The head rows that one team works on at a time: enough of them hide the latency of the sums and
/// read the hidden state once for all.
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

/// lane[r] += row r of `w` times `hidden` over one step of elements, for eight rows.
HUNCH_INLINE void add_step(const float* w, std::int64_t width, const float* hidden,
                           lane_floats (&lane)[gemv_rows]) {
  lane_floats h, values;
  load_vector(hidden, h);
  for (std::int32_t r = 0; r < gemv_rows; ++r) {
    load_vector(w + r * width, values);
    lane[r] += values * h;
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

template <class Half>
requires(sizeof(Half) == 2)
    HUNCH_INLINE void add_step(const Half* w, std::int64_t width, const float* hidden,
                               lane_floats (&lane)[gemv_rows]) {
  lane_floats first, second, even, odd, low, high;
  load_vector(hidden, first);
  load_vector(hidden + gemv_lanes, second);
  every_second(first, second, even, odd);
  lane_words words;
  for (std::int32_t r = 0; r < gemv_rows; ++r) {
    load_vector(w + r * width, words);
    widen(w, words, low, high);
    lane[r] += low * even;
    lane[r] += high * odd;
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

/// Four bytes in a word are four integers after shifts, as vectors of words for the same reason.
HUNCH_INLINE void add_step(const std::int8_t* w, std::int64_t width, const float* hidden,
                           lane_floats (&lane)[gemv_rows]) {
  lane_floats in[4], h[4];
  for (int i = 0; i < 4; ++i) { load_vector(hidden + i * gemv_lanes, in[i]); }
  every_fourth<0>(in, h[0]);
  every_fourth<1>(in, h[1]);
  every_fourth<2>(in, h[2]);
  every_fourth<3>(in, h[3]);
  lane_integers words;
  for (std::int32_t r = 0; r < gemv_rows; ++r) {
    load_vector(w + r * width, words);
    lane[r] += __builtin_convertvector((words << 24) >> 24, lane_floats) * h[0];
    lane[r] += __builtin_convertvector((words << 16) >> 24, lane_floats) * h[1];
    lane[r] += __builtin_convertvector((words << 8) >> 24, lane_floats) * h[2];
    lane[r] += __builtin_convertvector(words >> 24, lane_floats) * h[3];
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

/// Folds the lanes of eight rows by halves, two rows in one vector at a time.
HUNCH_INLINE void fold_rows(const lane_floats (&v)[gemv_rows], float* sums) {
  lane_floats by8[4], by4[2], by2;
  for (std::int32_t i = 0; i < 4; ++i) { fold<8>(v[2 * i], v[2 * i + 1], by8[i]); }
  for (std::int32_t i = 0; i < 2; ++i) { fold<4>(by8[2 * i], by8[2 * i + 1], by4[i]); }
  fold<2>(by4[0], by4[1], by2);
  const eight_floats result = __builtin_shufflevector(by2, by2, 0, 2, 4, 6, 8, 10, 12, 14) +
                              __builtin_shufflevector(by2, by2, 1, 3, 5, 7, 9, 11, 13, 15);
  __builtin_memcpy(sums, &result, sizeof result);
}

/// The dot products of eight adjacent head rows with one hidden state, over whole steps.
template <class Weight>
HUNCH_INLINE void dot_eight(const Weight* w, std::int64_t width, const float* hidden, float* sums) {
  lane_floats lane[gemv_rows] = {};
  for (std::int64_t k = 0; k < width; k += step_elements<Weight>) {
    add_step(w + k, width, hidden + k, lane);
  }
  fold_rows(lane, sums);
}

inline constexpr bool has_vectors = true;

#else

template <class Weight>
HUNCH_HOST_DEVICE void dot_eight(const Weight*, std::int64_t, const float*, float*) {}

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

/// The logits of `count` adjacent head rows by a team of several ranks: a rank per lane, so that
/// neighbours read what lies side by side.
template <class Weight, Team T>
HUNCH_HOST_DEVICE void share_logits(T& team, const head_weights<Weight>& head, std::int32_t first,
                                    std::int32_t count, const float* hidden, float* out) {
  constexpr std::int32_t most = team::list_capacity / gemv_lanes;
  const std::int64_t* const lanes = team.scratch().list;
  for (std::int32_t begin = 0; begin < count; begin += most) {
    const std::int32_t rows = count - begin < most ? count - begin : most;
    team.fill(rows * gemv_lanes, [=](std::int64_t i) {
      const auto row = first + begin + static_cast<std::int32_t>(i / gemv_lanes);
      const auto l = static_cast<std::int32_t>(i % gemv_lanes);
      return bit_cast<std::int32_t>(dot_lane(head.row(row), head.width, hidden, l));
    });
    team.for_each(rows, [=](std::int64_t r) {
      float lane[gemv_lanes];
      for (std::int32_t l = 0; l < gemv_lanes; ++l) {
        lane[l] = bit_cast<float>(static_cast<std::int32_t>(lanes[r * gemv_lanes + l]));
      }
      for (std::int32_t half = gemv_lanes / 2; half > 0; half /= 2) {
        for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
      }
      const std::int64_t at = begin + r;
      out[at] = head.row_scale == nullptr ? lane[0] : lane[0] * head.row_scale[first + at];
    });
  }
}

/// The logits of `count` <= 8 adjacent head rows.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE void logits_of(const head_weights<Weight>& head, std::int32_t first,
                                              std::int32_t count, const float* hidden, float* out) {
  const bool whole_steps = has_vectors && head.width % step_elements<Weight> == 0;
  if (whole_steps && count == gemv_rows) {
    dot_eight(head.row(first), head.width, hidden, out);
  } else if (whole_steps && count >= gemv_rows / 4 && first + gemv_rows <= head.rows) {
    float sums[gemv_rows];  // sooner, with rows that nobody asked for
    dot_eight(head.row(first), head.width, hidden, sums);
    for (std::int32_t r = 0; r < count; ++r) { out[r] = sums[r]; }
  } else {
    for (std::int32_t r = 0; r < count; ++r) {
      out[r] = dot_one(head.row(first + r), head.width, hidden);
    }
  }
  if (head.row_scale != nullptr) {
    for (std::int32_t r = 0; r < count; ++r) { out[r] *= head.row_scale[first + r]; }
  }
}

/// The logits of the rows of a range.
template <class Weight, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE void range_logits(T& team, const head_weights<Weight>& head,
                                                 row_range range, const float* hidden, float* out) {
  const std::int32_t length = range.end - range.begin;
  if (team.size() > 1) { return share_logits(team, head, range.begin, length, hidden, out); }
  const std::int32_t blocks = (length + gemv_rows - 1) / gemv_rows;
  team.for_each(blocks, [=](std::int64_t b) {
    const auto offset = static_cast<std::int32_t>(b) * gemv_rows;
    const std::int32_t count = length - offset < gemv_rows ? length - offset : gemv_rows;
    logits_of(head, range.begin + offset, count, hidden, out + offset);
  });
}

}  // namespace detail

/// out[i] = head row i . hidden, for all rows. Collective.
///
/// hidden: [width] float. out: [head.rows].
template <class Weight, Team T>
HUNCH_HOST_DEVICE void gemv(T& team, const head_weights<Weight>& head, const float* hidden,
                            float* out) {
  detail::range_logits(team, head, row_range{0, head.rows}, hidden, out);
}

/// logits[i] = head row of position i . hidden, for every position i of `list`: gather and product
/// in one pass, nothing is copied. Collective; adjacent rows are read as one stream.
///
/// hidden: [width] float. logits: [list.size], out.
template <class Weight, Team T>
HUNCH_HOST_DEVICE void range_gemv(T& team, const head_weights<Weight>& head, const shortlist& list,
                                  const float* hidden, row_view<float> logits) {
  std::int32_t before = 0;
  for (std::int32_t g = 0; g < list.range_count; ++g) {
    const row_range range = list.ranges[g];
    detail::range_logits(team, head, range, hidden, logits.data + before);
    before += range.end - range.begin;
  }
}

}  // namespace hunch::kernel

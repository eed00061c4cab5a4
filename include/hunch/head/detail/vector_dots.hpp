// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/head/detail/dot_one.hpp>
#include <hunch/team/detail/prefetch.hpp>
#include <hunch/team/processor.hpp>

/// \file
/// The same products for several rows and hidden states at a time, by the vectors of a host.

namespace hunch::kernel::detail {

using team::line;
using team::line_address;
using team::load_soon;

// Vector types of the compiler, not of a processor: on a narrower machine they are split. Plain
// loops over arrays of lanes are left in memory by some compilers, ten times slower; and so are
// arrays of vectors whose loops stay loops.
#if defined(__clang__)
#define HUNCH_REGISTERS _Pragma("unroll")
#elif !defined(__CUDACC__)
#define HUNCH_REGISTERS _Pragma("GCC unroll 16")
#else  // a pragma that nvcc does not know
#define HUNCH_REGISTERS
#endif
using lane_floats = float __attribute__((vector_size(64)));
using lane_words = std::uint32_t __attribute__((vector_size(64)));
using lane_integers = std::int32_t __attribute__((vector_size(64)));
using eight_floats = float __attribute__((vector_size(32)));
using eight_integers = std::int32_t __attribute__((vector_size(32)));
// Elements as they lie in memory: anywhere, and of whatever type.
using lane_halves = std::uint16_t __attribute__((vector_size(32), aligned(1), may_alias));
using lane_shorts = std::int16_t __attribute__((vector_size(32)));
using lane_bytes = std::int8_t __attribute__((vector_size(16), aligned(1), may_alias));

// Vectors go in and out by reference: by value their calling convention would depend on the
// processor, which compilers warn about.

template <class Vector>
HUNCH_INLINE void load_vector(const void* p, Vector& v) {
  __builtin_memcpy(&v, p, sizeof v);
}

/// Whether the processor has an instruction for a * b + c that rounds once.
template <class On>
inline constexpr bool has_fused =
#if defined(__FP_FAST_FMAF)
    true;
#else
    On::avx2;
#endif

/// sum += a * b, rounded once, by a processor that has it: compilers have no function for vectors
/// of theirs, but fuse the sum.
HUNCH_INLINE void multiply_add(const lane_floats& a, const lane_floats& b, lane_floats& sum) {
#if defined(__clang__)
#pragma clang fp contract(on)
#endif
  sum += a * b;
}

/// Halves, and bytes with their sign, as words. GCC makes of a vector of bytes one instruction for
/// each, and several of a vector of halves, where the processor has one for all.
template <class On>
HUNCH_INLINE void widen_elements(const lane_halves* p, lane_words& words) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (On::avx512) {
    asm("vpmovzxwd {%1, %0|%0, %1}" : "=v"(words) : "m"(*p));
    return;
  }
#endif
  lane_halves narrow;
  load_vector(p, narrow);
  words = __builtin_convertvector(narrow, lane_words);
}
template <class On>
HUNCH_INLINE void widen_elements(const lane_bytes* p, lane_integers& words) {
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (On::avx512) {
    asm("vpmovsxbd {%1, %0|%0, %1}" : "=v"(words) : "m"(*p));
    return;
  }
#endif
  lane_bytes narrow;
  load_vector(p, narrow);
  words = __builtin_convertvector(__builtin_convertvector(narrow, lane_shorts), lane_integers);
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

/// Of the 32 elements of two vectors.
HUNCH_INLINE void even_elements(const lane_floats& first, const lane_floats& second,
                                lane_floats& even) {
  even = __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26,
                                 28, 30);
}
HUNCH_INLINE void odd_elements(const lane_floats& first, const lane_floats& second,
                               lane_floats& odd) {
  odd = __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27,
                                29, 31);
}

/// A vector of elements, `to_float` of each.
template <class On>
HUNCH_INLINE void widen(const float* w, lane_floats& values) {
  load_vector(w, values);
}
template <class On>
HUNCH_INLINE void widen(const bfloat16* w, lane_floats& values) {
  lane_words words;
  widen_elements<On>(reinterpret_cast<const lane_halves*>(w), words);
  words <<= 16;
  load_vector(&words, values);
}
template <class On>
HUNCH_INLINE void widen(const float16* w, lane_floats& values) {
  lane_words words;
  widen_elements<On>(reinterpret_cast<const lane_halves*>(w), words);
  widen_half(words, values);
}
template <class On>
HUNCH_INLINE void widen(const std::int8_t* w, lane_floats& values) {
  lane_integers words;
  widen_elements<On>(reinterpret_cast<const lane_bytes*>(w), words);
  values = __builtin_convertvector(words, lane_floats);
}

/// Every e-th element of a line or of a hidden state, from each of the first e on.
template <class On>
HUNCH_INLINE void take_apart(const float* x, lane_floats (&parts)[1]) {
  load_vector(x, parts[0]);
}
template <class On>
HUNCH_INLINE void take_apart(const float* x, lane_floats (&parts)[2]) {
  lane_floats first, second;
  load_vector(x, first);
  load_vector(x + gemv_lanes, second);
  even_elements(first, second, parts[0]);
  odd_elements(first, second, parts[1]);
}
/// Of a hidden state that is multiplied with bytes: see below.
template <class On>
HUNCH_INLINE void take_apart(const float* x, lane_floats (&parts)[4]) {
  lane_floats low[2], high[2];
  take_apart<On>(x, low);
  take_apart<On>(x + 2 * gemv_lanes, high);
  for (std::int32_t i = 0; i < 2; ++i) {
    even_elements(low[i], high[i], parts[i]);
    odd_elements(low[i], high[i], parts[i + 2]);
  }
  for (lane_floats& part : parts) { part *= 0x1p-24f; }
}
/// Loads what is used more than once: compilers would read it again at every use.
template <class On, class Vector>
HUNCH_INLINE void load_once(const void* p, Vector& v) {
  load_vector(p, v);
#if defined(__x86_64__) && !defined(__clang__)
  if constexpr (On::avx512) { asm("" : "+v"(v)); }
#endif
}
template <class On>
HUNCH_INLINE void take_apart(const bfloat16* w, lane_floats (&parts)[2]) {
  lane_words words;
  load_once<On>(w, words);
  const lane_words low = words << 16;
  const lane_words high = words & 0xffff0000u;
  load_vector(&low, parts[0]);
  load_vector(&high, parts[1]);
}
template <class On>
HUNCH_INLINE void take_apart(const float16* w, lane_floats (&parts)[2]) {
  lane_words words;
  load_once<On>(w, words);
  widen_half(words, parts[0]);
  widen_half(words >> 16, parts[1]);
}
/// Four bytes in a word are four integers of 2^24 times their values once the others are cleared,
/// which is less than to shift each down again; the hidden state makes up for it.
template <class On>
HUNCH_INLINE void take_apart(const std::int8_t* w, lane_floats (&parts)[4]) {
  constexpr std::int32_t top = std::numeric_limits<std::int32_t>::min() >> 7;
  lane_integers words;
  load_once<On>(w, words);
  parts[0] = __builtin_convertvector(words << 24, lane_floats);
  parts[1] = __builtin_convertvector((words << 16) & top, lane_floats);
  parts[2] = __builtin_convertvector((words << 8) & top, lane_floats);
  parts[3] = __builtin_convertvector(words & top, lane_floats);
}

/// The sums of a row, 16 in a vector.
template <class Weight>
using row_sums = lane_floats[elements_per_lane<Weight>];

/// sums[s] += a row times hidden[s], from element k on, over one step of elements: a line. Vector i
/// of its sums has those of the elements 16 i, ..., 16 i + 15. Asks for a line at `ahead`.
template <class On, std::int32_t States, class Weight>
HUNCH_INLINE void add_line(const Weight* w, const float* const (&hidden)[States], std::int64_t k,
                           line_address ahead, row_sums<Weight> (&sums)[States]) {
  lane_floats h, values;
  load_soon(ahead);
  HUNCH_REGISTERS
  for (std::int32_t i = 0; i < elements_per_lane<Weight>; ++i) {
    const std::int64_t at = k + i * gemv_lanes;
    widen<On>(w + at, values);
    HUNCH_REGISTERS
    for (std::int32_t s = 0; s < States; ++s) {
      load_vector(hidden[s] + at, h);
      multiply_add(values, h, sums[s][i]);
    }
  }
}

/// The same for rows side by side, line r at `ahead` + r. Vector i has the sums of the elements
/// i, i + e, ...: a line of words becomes such vectors by shifts and masks, which is less than to
/// widen its parts, and the hidden state is taken apart once for all rows.
template <class On, std::int32_t Rows, std::int32_t States, class Weight>
HUNCH_INLINE void add_lines(const Weight* w, std::int64_t width,
                            const float* const (&hidden)[States], std::int64_t k,
                            line_address ahead, row_sums<Weight> (&sums)[States][Rows]) {
  constexpr std::int32_t each = elements_per_lane<Weight>;
  lane_floats h[States][each], values[each];
  HUNCH_REGISTERS
  for (std::int32_t s = 0; s < States; ++s) { take_apart<On>(hidden[s] + k, h[s]); }
  HUNCH_REGISTERS
  for (std::int32_t r = 0; r < Rows; ++r) {
    load_soon(ahead + static_cast<line_address>(r) * line);
    take_apart<On>(w + r * width + k, values);
    HUNCH_REGISTERS
    for (std::int32_t i = 0; i < each; ++i) {
      HUNCH_REGISTERS
      for (std::int32_t s = 0; s < States; ++s) { multiply_add(values[i], h[s][i], sums[s][r][i]); }
    }
  }
}

/// The sums of each lane, added, adjacent ones first. As `add_line` leaves them:
HUNCH_INLINE void add_adjacent(const lane_floats& first, const lane_floats& second,
                               lane_floats& out) {
  lane_floats even, odd;
  even_elements(first, second, even);
  odd_elements(first, second, odd);
  out = even + odd;
}
HUNCH_INLINE void lanes_of_line(const lane_floats (&sums)[1], lane_floats& lanes) {
  lanes = sums[0];
}
HUNCH_INLINE void lanes_of_line(const lane_floats (&sums)[2], lane_floats& lanes) {
  add_adjacent(sums[0], sums[1], lanes);
}
HUNCH_INLINE void lanes_of_line(const lane_floats (&sums)[4], lane_floats& lanes) {
  lane_floats first, second;
  add_adjacent(sums[0], sums[1], first);
  add_adjacent(sums[2], sums[3], second);
  add_adjacent(first, second, lanes);
}
/// As `add_lines` does:
HUNCH_INLINE void lanes_of_lines(const lane_floats (&sums)[1], lane_floats& lanes) {
  lanes = sums[0];
}
HUNCH_INLINE void lanes_of_lines(const lane_floats (&sums)[2], lane_floats& lanes) {
  lanes = sums[0] + sums[1];
}
HUNCH_INLINE void lanes_of_lines(const lane_floats (&sums)[4], lane_floats& lanes) {
  lanes = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// sum = the lanes of two vectors, folded by 8, 4 or 2 places: the first half of `sum` is a's.
template <std::int32_t Half, class Lanes>
HUNCH_INLINE void fold(const Lanes& a, const Lanes& b, Lanes& sum) {
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

/// The same for eight rows, of which each vector has eight lanes of two.
template <class Lanes, class Eight>
HUNCH_INLINE void fold_eights(const Lanes (&by8)[4], Eight& sums) {
  Lanes by4[2], by2;
  HUNCH_REGISTERS
  for (std::int32_t i = 0; i < 2; ++i) { fold<4>(by8[2 * i], by8[2 * i + 1], by4[i]); }
  fold<2>(by4[0], by4[1], by2);
  sums = __builtin_shufflevector(by2, by2, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(by2, by2, 1, 3, 5, 7, 9, 11, 13, 15);
}

/// Folds the lanes of `gemv_rows` rows by halves, two rows in one vector at a time.
HUNCH_INLINE void fold_rows(const lane_floats (&v)[gemv_rows], eight_floats& sums) {
  static_assert(gemv_rows == 8);
  lane_floats by8[4];
  HUNCH_REGISTERS
  for (std::int32_t i = 0; i < 4; ++i) { fold<8>(v[2 * i], v[2 * i + 1], by8[i]); }
  fold_eights(by8, sums);
}

/// The first `there` < a step of elements of what `from` holds, then zeros.
template <class Value, std::int32_t Step>
HUNCH_INLINE void pad(const Value* from, std::int64_t there, Value (&to)[Step]) {
  for (std::int32_t i = 0; i < Step; ++i) { to[i] = i < there ? from[i] : Value{}; }
}

/// The elements from k on of `Rows` rows, and of hidden states, as a step with zeros after them:
/// adding these changes nothing. use(rows, of_hidden).
template <std::int32_t Rows, std::int32_t States, class Weight, class Use>
HUNCH_INLINE void with_rest(const Weight* w, std::int64_t width,
                            const float* const (&hidden)[States], std::int64_t k, const Use& use) {
  constexpr std::int32_t step = step_elements<Weight>;
  Weight rest[Rows][step];
  for (std::int32_t r = 0; r < Rows; ++r) { pad(w + r * width + k, width - k, rest[r]); }
  float rest_of[States][step];
  const float* rest_of_hidden[States];
  for (std::int32_t s = 0; s < States; ++s) {
    pad(hidden[s] + k, width - k, rest_of[s]);
    rest_of_hidden[s] = rest_of[s];
  }
  use(rest[0], rest_of_hidden);
}

/// The lanes of a head row times hidden[s], to lanes[s][to]. What is prefetched meanwhile are lines
/// of `ahead`, as many as are read.
template <class On, std::int32_t States, class Weight, class Ahead>
HUNCH_INLINE void multiply_row(const Weight* w, std::int64_t width,
                               const float* const (&hidden)[States], Ahead& ahead, std::int32_t to,
                               lane_floats (&lanes)[States][gemv_rows]) {
  constexpr std::int32_t step = step_elements<Weight>;
  constexpr std::int32_t unrolled = 4;
  row_sums<Weight> sums[States] = {};
  auto place = ahead.place();
  std::int64_t k = 0;
  // Several lines at a time: a processor that waits for memory sees as much further ahead as there
  // are fewer instructions around them.
  for (; k + unrolled * step <= width; k += unrolled * step) {
    const line_address at = ahead.template take<unrolled>(place, w + k);
    HUNCH_REGISTERS
    for (std::int32_t i = 0; i < unrolled; ++i) {
      add_line<On>(w, hidden, k + i * step, at + static_cast<line_address>(i) * line, sums);
    }
  }
  for (; k + step <= width; k += step) {
    add_line<On>(w, hidden, k, ahead.template take<1>(place, w + k), sums);
  }
  ahead.give_back(place);
  if (k < width) {
    with_rest<1>(
        w, width, hidden, k, [&](const Weight* rest, const auto& rest_of_hidden) HUNCH_INLINED {
          add_line<On>(rest, rest_of_hidden, 0, reinterpret_cast<line_address>(rest), sums);
        });
  }
  HUNCH_REGISTERS
  for (std::int32_t s = 0; s < States; ++s) { lanes_of_line(sums[s], lanes[s][to]); }
}

/// The same for `Rows` adjacent rows side by side.
template <class On, std::int32_t Rows, std::int32_t States, class Weight, class Ahead>
HUNCH_INLINE void multiply_rows(const Weight* w, std::int64_t width,
                                const float* const (&hidden)[States], Ahead& ahead, std::int32_t to,
                                lane_floats (&lanes)[States][gemv_rows]) {
  constexpr std::int32_t step = step_elements<Weight>;
  row_sums<Weight> sums[States][Rows] = {};
  auto place = ahead.place();
  std::int64_t k = 0;
  for (; k + step <= width; k += step) {
    add_lines<On>(w, width, hidden, k, ahead.template take<Rows>(place, w + k), sums);
  }
  ahead.give_back(place);
  if (k < width) {
    with_rest<Rows>(
        w, width, hidden, k, [&](const Weight* rest, const auto& rest_of_hidden) HUNCH_INLINED {
          add_lines<On>(rest, step, rest_of_hidden, 0, reinterpret_cast<line_address>(rest), sums);
        });
  }
  HUNCH_REGISTERS
  for (std::int32_t s = 0; s < States; ++s) {
    HUNCH_REGISTERS
    for (std::int32_t r = 0; r < Rows; ++r) { lanes_of_lines(sums[s][r], lanes[s][to + r]); }
  }
}

/// sums[s][r] = row r . hidden[s] for 1 to `gemv_rows` adjacent head rows, `Together` at a time.
template <class On, std::int32_t Together, std::int32_t States, class Weight, class Ahead>
HUNCH_INLINE void dot_rows_on(const Weight* w, std::int64_t width, std::int32_t rows,
                              const float* const (&hidden)[States], Ahead& ahead,
                              float* const (&sums)[States]) {
  lane_floats lanes[States][gemv_rows] = {};
  std::int32_t done = 0;
  if constexpr (Together > 1) {
    for (; done + Together <= rows; done += Together) {
      multiply_rows<On, Together>(w + done * width, width, hidden, ahead, done, lanes);
    }
  }
  for (; done < rows; ++done) {
    multiply_row<On>(w + done * width, width, hidden, ahead, done, lanes);
  }
  for (std::int32_t s = 0; s < States; ++s) {
    eight_floats folded;
    fold_rows(lanes[s], folded);
    if (rows == gemv_rows) {
      __builtin_memcpy(sums[s], &folded, sizeof folded);
    } else {
      __builtin_memcpy(sums[s], &folded, static_cast<std::size_t>(rows) * sizeof(float));
    }
  }
}

template <std::int32_t Together, std::int32_t States, class Weight, class Ahead>
HUNCH_INLINE void dot_rows(const Weight* w, std::int64_t width, std::int32_t rows,
                           const float* const (&hidden)[States], Ahead& ahead,
                           float* const (&sums)[States]) {
  team::on_processor([&]<class On>(On) HUNCH_INLINED {
    const float* of[States];
    float* to[States];
    for (std::int32_t s = 0; s < States; ++s) {
      of[s] = hidden[s];
      to[s] = sums[s];
    }
    if constexpr (has_fused<On>) {
      const float* const(&states)[States] = of;
      dot_rows_on<On, Together>(w, width, rows, states, ahead, to);
    } else {
      // Each product is a call of a function; vectors would only make the compiler work.
      for (std::int32_t s = 0; s < States; ++s) {
        for (std::int32_t r = 0; r < rows; ++r) { to[s][r] = dot_one(w + r * width, width, of[s]); }
      }
    }
  });
}

#undef HUNCH_REGISTERS

}  // namespace hunch::kernel::detail

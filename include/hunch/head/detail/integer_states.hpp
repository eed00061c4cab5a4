// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/head/detail/dot_rows.hpp>
#include <hunch/head/detail/tensor_strip.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/team/processor.hpp>

/// \file
/// Hidden states as integers of 16 bits, by which threads multiply head rows of bytes. Bytes times
/// floats take a conversion for every weight, which is more than the product; integers are
/// multiplied as they are. Their sums are exact, so that a logit does not depend on the order of
/// additions, nor on the processor.

namespace hunch::kernel::detail {

/// A hidden state: values times a scale, padded with zeros to whole lines of a row of bytes. The
/// scale is NaN if one of its numbers is none.
struct integer_state {
  const std::int16_t* values = nullptr;
  float scale = 0.0f;
};

/// What a hidden state is turned into, and back: the integers of states of this width end here, so
/// that their sum of products with bytes has 32 bits. 15 bits and a sign up to a width of 512; 11
/// at 8,192.
HUNCH_HOST_DEVICE constexpr std::int32_t largest_integer(std::int32_t width) {
  constexpr std::int32_t most = 0x7fff;
  const std::int32_t fits = 0x7fffffff / 128 / larger(width, 1);
  return larger(smaller(fits, most), 1);
}

/// State `list` of a plan, in the words that its factors would have.
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t* integer_words(const state_factors& of,
                                                            std::int32_t width, std::int32_t list) {
  return of.words + split_words(width) * list;
}
/// As `put_integers` has left it: the values, and after them the scale.
HUNCH_HOST_DEVICE HUNCH_INLINE integer_state integers_at(const std::uint32_t* words,
                                                         std::int32_t width) {
  return {reinterpret_cast<const std::int16_t*>(words),
          bit_cast<float>(words[split_words(width) / 2])};
}

/// Writes the integers nearest to x [width] times `largest_integer` over its largest number.
HUNCH_HOST_DEVICE inline void put_integers(const float* x, std::int32_t width,
                                           std::uint32_t* words) {
  const auto padded = static_cast<std::int32_t>(split_words(width));
  auto* const values = reinterpret_cast<std::int16_t*>(words);
  const std::uint32_t top = team::on_processor([=] {
    std::uint32_t largest = 0;
    for (std::int32_t k = 0; k < width; ++k) {
      const std::uint32_t magnitude = bit_cast<std::uint32_t>(x[k]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  });
  const auto most = static_cast<float>(largest_integer(width));
  const float largest = bit_cast<float>(top);
  constexpr std::uint32_t infinite = 0x7f800000u;
  // Of what is smaller the inverse would be infinite; no logit shows it.
  const bool counts = top < infinite && largest >= 0x1p-100f;
  words[padded / 2] = top >= infinite ? 0x7fc00000u : bit_cast<std::uint32_t>(largest / most);
  const float inverse = counts ? most / largest : 0.0f;
  team::on_processor([=] {
    for (std::int32_t k = 0; k < width; ++k) {
      constexpr float magic = 12582912.0f;  // 1.5 * 2^23 leaves the nearest integer in the low bits
      const float shifted = std::fma(counts ? x[k] : 0.0f, inverse, magic);
      values[k] = static_cast<std::int16_t>(bit_cast<std::int32_t>(shifted) -
                                            bit_cast<std::int32_t>(magic));
    }
    for (std::int32_t k = width; k < padded; ++k) { values[k] = 0; }
  });
}

#if defined(__GNUC__) && !defined(__CUDA_ARCH__)

#if defined(__clang__)
#define HUNCH_REGISTERS _Pragma("unroll")
#elif !defined(__CUDACC__)
#define HUNCH_REGISTERS _Pragma("GCC unroll 16")
#else  // a pragma that nvcc does not know
#define HUNCH_REGISTERS
#endif

inline constexpr std::int32_t integer_step = step_elements<std::int8_t>;  ///< a line of a row

/// Sums of products over lanes, in some order: of `each` elements of a state at a time, which stay
/// in a register for some rows.
template <class On>
struct integer_sums {
  static constexpr std::int32_t each = gemv_lanes;
  using part = lane_integers;
  using sums = lane_integers;

  HUNCH_INLINE static void load(const std::int16_t* x, part& of) {
    for (std::int32_t l = 0; l < each; ++l) { of[l] = x[l]; }
  }
  HUNCH_INLINE static void add(const std::int8_t* w, const part& x, sums& to) {
    for (std::int32_t l = 0; l < each; ++l) { to[l] += std::int32_t{w[l]} * x[l]; }
  }
  /// Of two rows, to eight lanes each.
  HUNCH_INLINE static void fold_two(const sums& a, const sums& b, lane_integers& both) {
    fold<8>(a, b, both);
  }
};

#if defined(__x86_64__) && !defined(__clang__)

// Compilers have no function for these: bytes to 16 bits, and sums of adjacent products.

template <class On>
requires(On::avx512) struct integer_sums<On> {
  static constexpr std::int32_t each = 32;
  using part = lane_integers;  // two numbers in each
  using sums = lane_integers;
  using bytes = std::int8_t __attribute__((vector_size(32), aligned(1), may_alias));

  HUNCH_INLINE static void load(const std::int16_t* x, part& of) { load_once<On>(x, of); }
  HUNCH_INLINE static void add(const std::int8_t* w, const part& x, sums& to) {
    sums wide, products;
    asm("vpmovsxbw {%1, %0|%0, %1}" : "=v"(wide) : "m"(*reinterpret_cast<const bytes*>(w)));
    asm("vpmaddwd {%2, %1, %0|%0, %1, %2}" : "=v"(products) : "v"(wide), "v"(x));
    to += products;
  }
  HUNCH_INLINE static void fold_two(const sums& a, const sums& b, lane_integers& both) {
    fold<8>(a, b, both);
  }
};

template <class On>
requires(On::avx2 && !On::avx512) struct integer_sums<On> {
  static constexpr std::int32_t each = 16;
  using part = eight_integers;
  using sums = eight_integers;
  using bytes = std::int8_t __attribute__((vector_size(16), aligned(1), may_alias));

  HUNCH_INLINE static void load(const std::int16_t* x, part& of) { load_vector(x, of); }
  HUNCH_INLINE static void add(const std::int8_t* w, const part& x, sums& to) {
    sums wide, products;
    asm("vpmovsxbw {%1, %0|%0, %1}" : "=x"(wide) : "m"(*reinterpret_cast<const bytes*>(w)));
    asm("vpmaddwd {%2, %1, %0|%0, %1, %2}" : "=x"(products) : "x"(wide), "x"(x));
    to += products;
  }
  HUNCH_INLINE static void fold_two(const sums& a, const sums& b, lane_integers& both) {
    both = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
};

#endif

/// Adds the products of a line of `Rows` rows, `stride` apart, with each state.
template <class On, std::int32_t Rows, std::int32_t States>
HUNCH_INLINE void add_integer_lines(const std::int8_t* w, std::int64_t stride,
                                    const std::int16_t* const (&x)[States], std::int64_t k,
                                    typename integer_sums<On>::sums (&sums)[States][Rows]) {
  using lanes = integer_sums<On>;
  HUNCH_REGISTERS
  for (std::int32_t i = 0; i < integer_step; i += lanes::each) {
    typename lanes::part of[States];
    HUNCH_REGISTERS
    for (std::int32_t s = 0; s < States; ++s) { lanes::load(x[s] + k + i, of[s]); }
    HUNCH_REGISTERS
    for (std::int32_t r = 0; r < Rows; ++r) {
      HUNCH_REGISTERS
      for (std::int32_t s = 0; s < States; ++s) {
        lanes::add(w + r * stride + i, of[s], sums[s][r]);
      }
    }
  }
}

/// sums[s][first + r] of `Rows` adjacent rows, side by side, with each state.
template <class On, std::int32_t Rows, std::int32_t States, class Ahead>
HUNCH_INLINE void add_integer_rows(const std::int8_t* w, std::int64_t width,
                                   const std::int16_t* const (&x)[States], Ahead& ahead,
                                   std::int32_t first,
                                   typename integer_sums<On>::sums (&sums)[States][gemv_rows]) {
  typename integer_sums<On>::sums own[States][Rows] = {};
  auto place = ahead.place();
  std::int64_t k = 0;
  for (; k + integer_step <= width; k += integer_step) {
    const line_address at = ahead.template take<Rows>(place, w + k);
    HUNCH_REGISTERS
    for (std::int32_t r = 0; r < Rows; ++r) { load_soon(at + static_cast<line_address>(r) * line); }
    add_integer_lines<On, Rows>(w + k, width, x, k, own);
  }
  ahead.give_back(place);
  if (k < width) {
    std::int8_t rest[Rows][integer_step];
    for (std::int32_t r = 0; r < Rows; ++r) { pad(w + r * width + k, width - k, rest[r]); }
    add_integer_lines<On, Rows>(rest[0], integer_step, x, k, own);
  }
  HUNCH_REGISTERS
  for (std::int32_t s = 0; s < States; ++s) {
    HUNCH_REGISTERS
    for (std::int32_t r = 0; r < Rows; ++r) { sums[s][first + r] = own[s][r]; }
  }
}

/// The sums of products of 1 to `gemv_rows` adjacent rows.
template <class On, std::int32_t Together, std::int32_t States, class Ahead>
HUNCH_INLINE void integer_dots_on(const std::int8_t* w, std::int64_t width, std::int32_t rows,
                                  const std::int16_t* const (&x)[States], Ahead& ahead,
                                  std::int32_t (&sums)[States][gemv_rows]) {
  typename integer_sums<On>::sums lanes[States][gemv_rows];
  std::int32_t done = 0;
  if constexpr (Together > 1) {
    for (; done + Together <= rows; done += Together) {
      add_integer_rows<On, Together>(w + done * width, width, x, ahead, done, lanes);
    }
  }
  for (; done < rows; ++done) {
    add_integer_rows<On, 1>(w + done * width, width, x, ahead, done, lanes);
  }
  for (; done < gemv_rows; ++done) {
    for (std::int32_t s = 0; s < States; ++s) {
      lanes[s][done] = typename integer_sums<On>::sums{};
    }
  }
  for (std::int32_t s = 0; s < States; ++s) {
    lane_integers by8[4];
    HUNCH_REGISTERS
    for (std::int32_t i = 0; i < 4; ++i) {
      integer_sums<On>::fold_two(lanes[s][2 * i], lanes[s][2 * i + 1], by8[i]);
    }
    eight_integers folded;
    fold_eights(by8, folded);
    __builtin_memcpy(sums[s], &folded, sizeof folded);
  }
}

#undef HUNCH_REGISTERS

template <std::int32_t Together, std::int32_t States, class Ahead>
HUNCH_INLINE void integer_dots(const std::int8_t* w, std::int64_t width, std::int32_t rows,
                               const integer_state (&states)[States], Ahead& ahead,
                               std::int32_t (&sums)[States][gemv_rows]) {
  std::int32_t(*const to)[gemv_rows] = sums;
  const integer_state* const of = states;
  team::on_processor([&]<class On>(On) HUNCH_INLINED {
    const std::int16_t* x[States];
    for (std::int32_t s = 0; s < States; ++s) { x[s] = of[s].values; }
    const std::int16_t* const(&values)[States] = x;
    std::int32_t own[States][gemv_rows];
    integer_dots_on<On, Together>(w, width, rows, values, ahead, own);
    __builtin_memcpy(to, own, sizeof own);
  });
}

#else

template <std::int32_t Together, std::int32_t States, class Ahead>
HUNCH_HOST_DEVICE void integer_dots(const std::int8_t* w, std::int64_t width, std::int32_t rows,
                                    const integer_state (&states)[States], Ahead&,
                                    std::int32_t (&sums)[States][gemv_rows]) {
  for (std::int32_t s = 0; s < States; ++s) {
    for (std::int32_t r = 0; r < rows; ++r) {
      sums[s][r] = 0;
      for (std::int64_t k = 0; k < width; ++k) {
        sums[s][r] += std::int32_t{w[r * width + k]} * std::int32_t{states[s].values[k]};
      }
    }
  }
}

#endif

/// The logits of `count` <= 8 adjacent head rows of bytes with a few hidden states, by a thread.
/// What is asked of `ahead` is what is read. out[s]: [count], rounded where logits have 16 bits.
template <std::int32_t States, class Ahead, class Logit>
HUNCH_HOST_DEVICE HUNCH_INLINE void logits_of(const head_weights<std::int8_t>& head,
                                              std::int32_t first, std::int32_t count,
                                              const integer_state (&states)[States], Ahead& ahead,
                                              Logit* const (&out)[States]) {
  constexpr std::int32_t most = 4;
  constexpr std::int32_t together = Ahead::together < most ? Ahead::together : most;
  std::int32_t sums[States][gemv_rows];
  integer_dots<together>(head.row(first), head.width, count, states, ahead, sums);
  for (std::int32_t s = 0; s < States; ++s) {
    for (std::int32_t r = 0; r < count; ++r) {
      const float logit = static_cast<float>(sums[s][r]) * states[s].scale;
      out[s][r] =
          to_logit<Logit>(head.row_scale == nullptr ? logit : logit * head.row_scale[first + r]);
    }
  }
}

}  // namespace hunch::kernel::detail

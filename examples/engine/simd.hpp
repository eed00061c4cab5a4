// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/// \file
/// Sixteen floats. The engine is written in this one type: an AVX-512 register where there is one,
/// else two or four registers of the compiler's vector types (little-endian machines).
/// Multiply-adds are explicit, so that a result never depends on what the compiler chose to
/// contract in one kernel and not in another.

#if defined(__GNUC__) || defined(__clang__)
#define ENGINE_INLINE inline __attribute__((always_inline))
#else
#define ENGINE_INLINE inline
#endif

namespace engine {

inline constexpr int lanes = 16;

/// Asks for the cache line at `p`, which may lie beyond the end of an array. \tparam Far as far as
/// the second cache only.
template <bool Far = false>
ENGINE_INLINE void prefetch(const void* p) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(p, 0, Far ? 2 : 3);
#endif
}

/// `n` rounded up to a multiple of `unit`.
constexpr int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

#if defined(__AVX512F__)

struct f32x16 {
  __m512 v;
};

/// GCC 12 warns about the undefined operand inside the unmasked forms of some intrinsics; with all
/// lanes on, the masked forms compile to the same instructions.
inline constexpr __mmask16 all_lanes = 0xffff;

ENGINE_INLINE f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
ENGINE_INLINE void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
/// The same, loaded once: else GCC makes each use of it a load of its own.
ENGINE_INLINE f32x16 in_register(f32x16 a) {
  asm("" : "+v"(a.v));
  return a;
}
ENGINE_INLINE f32x16 splat(float x) { return {_mm512_set1_ps(x)}; }
ENGINE_INLINE f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
ENGINE_INLINE f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
ENGINE_INLINE f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
ENGINE_INLINE f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once.
ENGINE_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// The larger; `b` where either is a NaN.
ENGINE_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm512_maskz_max_ps(all_lanes, a.v, b.v)}; }
ENGINE_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm512_maskz_min_ps(all_lanes, a.v, b.v)}; }
/// 0 where a < b, else `otherwise`.
ENGINE_INLINE f32x16 zero_where_less(f32x16 a, f32x16 b, f32x16 otherwise) {
  return {_mm512_mask_mov_ps(otherwise.v, _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ),
                             _mm512_setzero_ps())};
}
/// a * 2^n for integral n.
ENGINE_INLINE f32x16 scale_by_power(f32x16 a, f32x16 n) {
  return {_mm512_maskz_scalef_ps(all_lanes, a.v, n.v)};
}

/// The even bfloat16 values of 32 consecutive ones, as floats.
ENGINE_INLINE f32x16 load_even(const std::uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(all_lanes, _mm512_loadu_si512(p), 16))};
}
/// The odd ones.
ENGINE_INLINE f32x16 load_odd(const std::uint16_t* p) {
  return {_mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}

/// Sixteen consecutive bfloat16 values, as floats.
ENGINE_INLINE f32x16 load_bf16(const void* p) {
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, bits), 16))};
}

#else

namespace detail {

// Registers of this machine, as vector types of the compiler. Arrays of plain floats would be left
// in memory, ten times slower; vector types wider than a register fare no better.
#if defined(__AVX__)
inline constexpr int width = 8;
#else
inline constexpr int width = 4;
#endif
inline constexpr int parts = lanes / width;
using floats = float __attribute__((vector_size(4 * width)));
using words = std::uint32_t __attribute__((vector_size(4 * width)));

ENGINE_INLINE floats as_floats(words w) { return std::bit_cast<floats>(w); }
ENGINE_INLINE words as_words(floats f) { return std::bit_cast<words>(f); }

ENGINE_INLINE floats fma(floats a, floats b, floats c) {
#if defined(__AVX__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

}  // namespace detail

struct f32x16 {
  detail::floats v[detail::parts];
};

namespace detail {

template <class F>
ENGINE_INLINE f32x16 make(F f) {
  f32x16 out;
  for (int i = 0; i < parts; ++i) { out.v[i] = f(i); }
  return out;
}

}  // namespace detail

ENGINE_INLINE f32x16 load(const float* p) {
  return detail::make([=](int i) {
    detail::floats out;
    __builtin_memcpy(&out, p + i * detail::width, sizeof out);
    return out;
  });
}
ENGINE_INLINE void store(float* p, f32x16 a) {
  for (int i = 0; i < detail::parts; ++i) {
    __builtin_memcpy(p + i * detail::width, &a.v[i], sizeof a.v[i]);
  }
}
ENGINE_INLINE f32x16 in_register(f32x16 a) { return a; }
ENGINE_INLINE f32x16 splat(float x) {
  return detail::make([=](int) { return x - detail::floats{}; });
}
ENGINE_INLINE f32x16 operator+(f32x16 a, f32x16 b) {
  return detail::make([=](int i) { return a.v[i] + b.v[i]; });
}
ENGINE_INLINE f32x16 operator-(f32x16 a, f32x16 b) {
  return detail::make([=](int i) { return a.v[i] - b.v[i]; });
}
ENGINE_INLINE f32x16 operator*(f32x16 a, f32x16 b) {
  return detail::make([=](int i) { return a.v[i] * b.v[i]; });
}
ENGINE_INLINE f32x16 operator/(f32x16 a, f32x16 b) {
  return detail::make([=](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c, rounded once where the machine can.
ENGINE_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return detail::make([=](int i) { return detail::fma(a.v[i], b.v[i], c.v[i]); });
}

namespace detail {

/// a where `mask` has ones, b where it has zeros.
ENGINE_INLINE floats choose(words mask, floats a, floats b) {
  return as_floats((mask & as_words(a)) | (~mask & as_words(b)));
}

}  // namespace detail

/// The larger; `b` where either is a NaN.
ENGINE_INLINE f32x16 max(f32x16 a, f32x16 b) {
  return detail::make([=](int i) {
    return detail::choose(std::bit_cast<detail::words>(a.v[i] > b.v[i]), a.v[i], b.v[i]);
  });
}
ENGINE_INLINE f32x16 min(f32x16 a, f32x16 b) {
  return detail::make([=](int i) {
    return detail::choose(std::bit_cast<detail::words>(a.v[i] < b.v[i]), a.v[i], b.v[i]);
  });
}
/// 0 where a < b, else `otherwise`.
ENGINE_INLINE f32x16 zero_where_less(f32x16 a, f32x16 b, f32x16 otherwise) {
  return detail::make([=](int i) {
    return detail::choose(std::bit_cast<detail::words>(a.v[i] < b.v[i]), detail::floats{},
                          otherwise.v[i]);
  });
}
/// a * 2^n for integral n, by adding to the exponent: 1.5 * 2^23 leaves n in the low bits.
ENGINE_INLINE f32x16 scale_by_power(f32x16 a, f32x16 n) {
  return detail::make([=](int i) {
    return detail::as_floats(detail::as_words(a.v[i]) +
                             (detail::as_words(n.v[i] + 12582912.0f) << 23));
  });
}
/// The even bfloat16 values of 32 consecutive ones, as floats.
ENGINE_INLINE f32x16 load_even(const std::uint16_t* p) {
  return detail::make([=](int i) {
    detail::words out;
    __builtin_memcpy(&out, p + 2 * i * detail::width, sizeof out);
    return detail::as_floats(out << 16);
  });
}
/// The odd ones.
ENGINE_INLINE f32x16 load_odd(const std::uint16_t* p) {
  return detail::make([=](int i) {
    detail::words out;
    __builtin_memcpy(&out, p + 2 * i * detail::width, sizeof out);
    return detail::as_floats(out & 0xffff0000u);
  });
}

/// Sixteen consecutive bfloat16 values, as floats.
ENGINE_INLINE f32x16 load_bf16(const void* p) {
  std::uint16_t bits[lanes];
  __builtin_memcpy(bits, p, sizeof bits);
  return detail::make([&](int i) {
    detail::words out{};
    for (int k = 0; k < detail::width; ++k) { out[k] = bits[i * detail::width + k]; }
    return detail::as_floats(out << 16);
  });
}

#endif

/// The sum of the lanes, by a fixed binary tree.
ENGINE_INLINE float sum(f32x16 a) {
  alignas(64) float v[lanes];
  store(v, a);
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) { v[i] += v[i + half]; }
  }
  return v[0];
}

/// The largest lane (a NaN may be lost).
ENGINE_INLINE float maximum(f32x16 a) {
  alignas(64) float v[lanes];
  store(v, a);
  float best = v[0];
  for (int i = 1; i < lanes; ++i) { best = v[i] > best ? v[i] : best; }
  return best;
}

/// e^x to 2 units in the last place; 0 below -87 (and for -inf), saturated above 88, NaN stays NaN.
ENGINE_INLINE f32x16 exp(f32x16 x) {
  const f32x16 clamped = max(splat(-87.0f), min(splat(88.0f), x));
  const f32x16 magic = splat(12582912.0f);
  const f32x16 n = fma(clamped, splat(1.44269504f), magic) - magic;
  f32x16 r = fma(n, splat(-0.693145752f), clamped);
  r = fma(n, splat(-1.42860677e-6f), r);
  f32x16 p = splat(1.0f / 720);
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  return zero_where_less(x, splat(-87.0f), scale_by_power(p, n));
}

}  // namespace engine

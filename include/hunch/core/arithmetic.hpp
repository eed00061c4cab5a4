// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <hunch/core/config.hpp>

/// \file
/// Arithmetic whose rounding is part of the contract: the same bits on every team, whatever a
/// compiler may contract. A product that feeds a sum is therefore never written `a * b + c`.

namespace hunch::kernel {

// Device code may not call the constexpr functions of std::numeric_limits, but use their values.
// The limits of a type that has none would be 0.
template <class Real>
requires std::numeric_limits<Real>::is_specialized inline constexpr Real infinity =
    std::numeric_limits<Real>::infinity();
template <class Real>
requires std::numeric_limits<Real>::is_specialized inline constexpr Real largest =
    std::numeric_limits<Real>::max();
/// An id that is not below any other: everything is kept.
inline constexpr std::int32_t last_id = std::numeric_limits<std::int32_t>::max();

/// std::bit_cast, which device code may not call.
template <class To, class From>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

/// std::min, std::max and std::clamp, which device code may not call.
template <class X>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr X smaller(X a, X b) {
  return b < a ? b : a;
}
template <class X>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr X larger(X a, X b) {
  return a < b ? b : a;
}
/// x, or the nearer end of [least, most].
template <class X>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr X clamped(X x, X least, X most) {
  return smaller(larger(x, least), most);
}

/// The larger of two numbers; a NaN if one of them is.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE Real larger_or_nan(Real a, Real b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Real, float>) {
    float larger;  // in one instruction
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
#endif
  return a > b || a != a ? a : b;
}

/// A uniform number in [0, 1) with 53 bits. Fewer are not enough: 24 bits over a float prefix
/// make most of the tail of a large vocabulary unreachable.
HUNCH_HOST_DEVICE constexpr double uniform(std::uint64_t word) {
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

/// a * b, rounded once; a compiler may not merge it into a neighbouring addition.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE Real product(Real a, Real b) {
  return std::fma(a, b, Real(-0.0));
}

/// Added to a number of less than 2^22, it leaves the nearest integer in the low bits of the sum,
/// which shifted by 23 is an exponent. No conversion, so that host loops vectorise.
inline constexpr float round_shift = 12582912.0f;

/// Times * 2^x for x in [-0.5, 0.5]: relative error below 2e-7.
template <int Times = 1>
HUNCH_HOST_DEVICE HUNCH_INLINE float exp2_series(float x) {
  constexpr auto times = static_cast<float>(Times);
  float y = times * 1.3264727e-3f;
  y = std::fma(y, x, times * 9.671513e-3f);
  y = std::fma(y, x, times * 5.5507336e-2f);
  y = std::fma(y, x, times * 2.4022242e-1f);
  y = std::fma(y, x, times * 6.93147e-1f);
  return std::fma(y, x, times);
}

/// 2^x for x below 127, and exactly 0 below 2^Least: relative error below 2e-7. No branch, so that
/// host loops vectorise; the argument is given as a product d * s so that its rounding does not
/// depend on contraction either.
template <int Least = -126>
HUNCH_HOST_DEVICE HUNCH_INLINE float exp2_product(float d, float s) {
  const float shifted = std::fma(d, s, round_shift);
  const float whole = shifted - round_shift;
  const float y = exp2_series(std::fma(d, s, -whole));
  const std::uint32_t bits = bit_cast<std::uint32_t>(y) + (bit_cast<std::uint32_t>(shifted) << 23);
  return whole >= static_cast<float>(Least) ? bit_cast<float>(bits) : 0.0f;
}

/// Whether exp2_product(d, s) is more than 0.
HUNCH_HOST_DEVICE HUNCH_INLINE bool exp2_is_positive(float d, float s) {
  return std::fma(d, s, round_shift) - round_shift >= -126.0f;
}

/// 2^(d * s) in double, for tests that compare laws to 1e-12.
HUNCH_HOST_DEVICE HUNCH_INLINE double exp2_product(double d, double s) {
  return std::exp2(product(d, s));
}

/// log(x) for a normal x > 0, by the series of 2 atanh((m - 1) / (m + 1)) for the mantissa m: the
/// same bits on every machine, which the logarithms of mathematical libraries are not. Relative
/// error below 1e-15.
HUNCH_HOST_DEVICE HUNCH_INLINE double log_of(double x) {
  const auto bits = bit_cast<std::int64_t>(x);
  // The exponent that leaves the mantissa between sqrt(1/2) and sqrt(2).
  const std::int64_t shifted = bits - 0x3fe6a09e667f3bcd;
  const auto exponent = static_cast<double>(shifted >> 52);
  const double m = bit_cast<double>(bits - (shifted & static_cast<std::int64_t>(~0ull << 52)));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = product(s, s);
  double series = 1.0 / 25.0;
  for (int k = 23; k >= 1; k -= 2) { series = std::fma(series, z, 1.0 / k); }
  return std::fma(exponent, 0.69314718055994530942, product(s + s, series));
}

/// exp(x) for x <= 0, and 0 below -700: the same bits on every machine. Relative error below 1e-15.
HUNCH_HOST_DEVICE HUNCH_INLINE double exp_of(double x) {
  if (!(x >= -700.0)) { return 0.0; }
  // Added to a small number, it leaves the nearest integer in the low bits of the sum.
  constexpr double shift = 0x1.8p52;
  const double whole = std::fma(x, 1.44269504088896340736, shift) - shift;
  const double rest =
      std::fma(-whole, 0x1.abc9e3b39803fp-56, std::fma(-whole, 0x1.62e42fefa39efp-1, x));
  double series = 1.0;
  for (int k = 14; k >= 1; --k) { series = std::fma(product(series, rest), 1.0 / k, 1.0); }
  return bit_cast<double>(bit_cast<std::int64_t>(series) +
                          static_cast<std::int64_t>(whole) * (std::int64_t{1} << 52));
}

/// Integer keys in the order of the floating-point numbers: -inf lowest, +inf above every finite
/// value, every NaN above +inf. Integer maxima vectorise where those of floats do not.
template <class Real>
struct order;

template <>
struct order<float> {
  using key = std::int32_t;
  static constexpr key plus_infinity = 0x7f800000;
  static constexpr key minus_infinity = static_cast<key>(0x807fffffu);
  static constexpr key highest = std::numeric_limits<key>::max();

  HUNCH_HOST_DEVICE static HUNCH_INLINE key of(float x) {
    const auto b = bit_cast<std::int32_t>(x + 0.0f);  // -0 and +0 are equal
    const std::int32_t k = b ^ ((b >> 31) & 0x7fffffff);
    return (b & 0x7fffffff) > plus_infinity ? highest : k;
  }
  HUNCH_HOST_DEVICE static HUNCH_INLINE float value(key k) {
    return bit_cast<float>(k ^ ((k >> 31) & 0x7fffffff));
  }
};

template <>
struct order<double> {
  using key = std::int64_t;
  static constexpr key plus_infinity = 0x7ff0000000000000;
  static constexpr key minus_infinity = static_cast<key>(0x800fffffffffffffull);
  static constexpr key highest = std::numeric_limits<key>::max();

  HUNCH_HOST_DEVICE static HUNCH_INLINE key of(double x) {
    const auto b = bit_cast<std::int64_t>(x + 0.0);
    const std::int64_t k = b ^ ((b >> 63) & 0x7fffffffffffffff);
    return (b & 0x7fffffffffffffff) > plus_infinity ? highest : k;
  }
  HUNCH_HOST_DEVICE static HUNCH_INLINE double value(key k) {
    return bit_cast<double>(k ^ ((k >> 63) & 0x7fffffffffffffff));
  }
};

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>

/// \file
/// The types that logits may have. Rows of the 16-bit types are read as they are: each element is
/// widened where it is loaded, which is exact, and what is computed of it is a float. So such a row
/// gives, bit for bit, what a copy of it in float gives.

namespace hunch {

/// The type of a row's logits: `float`; `bfloat16` or `float16`; `double` in tests of exactness.
template <class T>
concept LogitType = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, bfloat16> || std::same_as<T, float16>;

namespace detail {

template <class T>
struct real_type {
  using type = T;
};
template <>
struct real_type<bfloat16> {
  using type = float;
};
template <>
struct real_type<float16> {
  using type = float;
};

}  // namespace detail

/// What is computed of elements of type T, such as the scalars of a law: `float` where these are
/// 16-bit numbers, else T.
template <class T>
using real_of = typename detail::real_type<T>::type;

/// An element as what is computed of it.
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float to_real(bfloat16 x) { return to_float(x); }
HUNCH_HOST_DEVICE HUNCH_INLINE float to_real(float16 x) {
#if defined(__CUDA_ARCH__)
  // One instruction, and no register more: rules have none to spare beside their loads.
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
#else
  return to_float(x);
#endif
}
template <class T>
requires std::is_arithmetic_v<T> HUNCH_HOST_DEVICE HUNCH_INLINE constexpr T to_real(T x) {
  return x;
}

/// The element at `at` as what is computed of it. On a device it lies in global memory, the loads
/// of which need not look at addresses. Not through the read-only cache: a body may have edited it.
template <class T>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr real_of<T> load(const T* at) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(at) != 0);
#endif
  return to_real(*at);
}

/// The nearest logit of type T, ties to even: what a stage that edits logits writes to a row. A
/// finite number stays one, the largest that T has if need be: an edit makes no infinity of what
/// was none in float.
template <class T>
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr T to_logit(real_of<T> x) {
  if constexpr (std::is_same_v<T, real_of<T>>) {
    return x;
  } else {
    constexpr float most = std::is_same_v<T, bfloat16> ? 0x1.fep127f : 65504.0f;
    constexpr float infinite = __builtin_huge_valf();
    const float below = x > most && x < infinite ? most : x;
    const float held = below < -most && below > -infinite ? -most : below;
    if constexpr (std::is_same_v<T, bfloat16>) {
      return to_bfloat16(held);
    } else {
      return to_float16(held);
    }
  }
}

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>

/// \file
/// Four neighbours at a time. Teams on a device read rows with 16-byte loads, 8-byte ones of 16-bit
/// numbers, where a function says how its values are made of such; the values, and the order in
/// which they are added, stay those of one at a time.

namespace hunch::team {

/// The values of four neighbouring elements.
template <class T>
struct four {
  T of[4];
  HUNCH_HOST_DEVICE HUNCH_INLINE constexpr T operator[](std::int64_t j) const { return of[j]; }
};

/// A function that can be read four neighbours at once.
///
/// 1. `f.is_aligned()` is whether the rows that it reads allow it; the same for all elements.
/// 2. `f.four(i)` is {f(i), f(i + 1), f(i + 2), f(i + 3)}, bit for bit, for an i that is a multiple
///    of 4, all four inside.
template <class F>
concept Vectorised = requires(const F& f, std::int64_t i) {
  { f.is_aligned() } -> std::same_as<bool>;
  f.four(i);
};

/// Rows that a function reads for an element, by `static constexpr int rows`: of one that reads
/// two, half as many elements are under way at a time.
template <class F>
inline constexpr int rows_read = 1;
template <class F>
requires requires { F::rows; }
inline constexpr int rows_read<F> = F::rows;

/// Whether `load_four` works on `row`. On a device: also whether it lies in global memory, for the
/// loads of which addresses need not be looked at.
template <class T>
HUNCH_HOST_DEVICE HUNCH_INLINE bool loads_fours(const T* row) {
  constexpr std::uintptr_t bytes = sizeof(T) < 4 ? 4 * sizeof(T) : 16;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(row) & (bytes - 1)) == 0;
#if defined(__CUDA_ARCH__)
  return aligned && __isGlobal(row) != 0;
#else
  return aligned;
#endif
}

#if defined(__CUDA_ARCH__)

namespace detail {

__device__ inline four<float> load_vector(const float* at) {
  const float4 x = *reinterpret_cast<const float4*>(at);
  return {{x.x, x.y, x.z, x.w}};
}
__device__ inline four<std::int32_t> load_vector(const std::int32_t* at) {
  const int4 x = *reinterpret_cast<const int4*>(at);
  return {{x.x, x.y, x.z, x.w}};
}
__device__ inline four<double> load_vector(const double* at) {
  const double2 x = *reinterpret_cast<const double2*>(at);
  const double2 y = *reinterpret_cast<const double2*>(at + 2);
  return {{x.x, x.y, y.x, y.y}};
}
template <class Half>
__device__ inline four<float> load_halves(const Half* at) {
  const uint2 x = *reinterpret_cast<const uint2*>(at);
  const auto lower = [](unsigned w) { return to_real(Half{static_cast<std::uint16_t>(w)}); };
  const auto upper = [](unsigned w) { return to_real(Half{static_cast<std::uint16_t>(w >> 16)}); };
  return {{lower(x.x), upper(x.x), lower(x.y), upper(x.y)}};
}
__device__ inline four<float> load_vector(const bfloat16* at) { return load_halves(at); }
__device__ inline four<float> load_vector(const float16* at) { return load_halves(at); }

}  // namespace detail

#endif

/// Four neighbours as what is computed of them, the first at a multiple of 4 of a row for which
/// `loads_fours`. Not through the read-only cache: a body may have edited the row.
template <class T>
HUNCH_HOST_DEVICE HUNCH_INLINE four<real_of<T>> load_four(const T* at) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(at) != 0);
  return detail::load_vector(at);
#else
  return {{to_real(at[0]), to_real(at[1]), to_real(at[2]), to_real(at[3])}};
#endif
}

}  // namespace hunch::team

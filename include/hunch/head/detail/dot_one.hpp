// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>

/// \file
/// The dot product of a head row with a hidden state, in the one order of additions that all
/// threads share.

namespace hunch::kernel {

/// The most head rows that one thread works on at a time.
inline constexpr std::int32_t gemv_rows = 8;

namespace detail {

inline constexpr std::int32_t gemv_lanes = 16;

/// A step is four bytes per lane: e = 1, 2 or 4 elements. Each has a sum of its own, so that
/// element k of a row is added to sum k mod 16 e; in the end the sums of a lane are added, adjacent
/// ones first, and the lanes fold by halves. So sums do not wait for each other where elements are
/// narrow, and a logit depends neither on the other rows of the shortlist nor on the batch.
template <class Weight>
inline constexpr std::int32_t elements_per_lane = 4 / static_cast<std::int32_t>(sizeof(Weight));
template <class Weight>
inline constexpr std::int32_t step_elements = gemv_lanes* elements_per_lane<Weight>;

/// The sums of a lane, adjacent ones first.
template <std::int32_t Each>
HUNCH_HOST_DEVICE HUNCH_INLINE float add_parts(const float* parts) {
  if constexpr (Each == 1) {
    return parts[0];
  } else {
    return add_parts<Each / 2>(parts) + add_parts<Each / 2>(parts + Each / 2);
  }
}

/// The dot product of one head row with one hidden state, in this order of additions.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float dot_one(const Weight* w, std::int64_t width,
                                             const float* hidden) {
  // A sum by a number known to the compiler, so that sums are registers everywhere.
  constexpr std::int32_t each = elements_per_lane<Weight>;
  constexpr std::int32_t step = step_elements<Weight>;
  float sums[step] = {};
  std::int64_t k = 0;
  for (; k + step <= width; k += step) {
    for (std::int32_t i = 0; i < step; ++i) {
      sums[i] = std::fma(to_float(w[k + i]), hidden[k + i], sums[i]);
    }
  }
  for (std::int32_t i = 0; i < step; ++i) {
    if (k + i < width) { sums[i] = std::fma(to_float(w[k + i]), hidden[k + i], sums[i]); }
  }
  float lane[gemv_lanes];
  for (std::int32_t l = 0; l < gemv_lanes; ++l) { lane[l] = add_parts<each>(sums + l * each); }
  for (std::int32_t half = gemv_lanes / 2; half > 0; half /= 2) {
    for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
  }
  return lane[0];
}

/// Lane `l` of that product.
template <class Weight>
HUNCH_HOST_DEVICE HUNCH_INLINE float dot_lane(const Weight* w, std::int64_t width,
                                              const float* hidden, std::int32_t l) {
  constexpr std::int32_t each = elements_per_lane<Weight>;
  float parts[each] = {};
  for (std::int64_t k = l * each; k < width; k += step_elements<Weight>) {
    for (std::int32_t i = 0; i < each; ++i) {
      if (k + i < width) { parts[i] = std::fma(to_float(w[k + i]), hidden[k + i], parts[i]); }
    }
  }
  return add_parts<each>(parts);
}

}  // namespace detail

}  // namespace hunch::kernel

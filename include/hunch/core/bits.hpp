// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// Words as sets of up to 64 members.

namespace hunch::kernel {

/// How many members.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t count_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __popcll(bits);
#else
  return __builtin_popcountll(bits);
#endif
}

HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t count_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

/// The member that has `n` members below it, of a set that has more than `n`.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t member_of(std::uint32_t bits, std::int32_t n) {
  std::int32_t at = 0;
  HUNCH_UNROLLED
  for (std::int32_t half = 16; half > 0; half /= 2) {
    const std::int32_t below = count_of(bits & ((1u << half) - 1u));
    const bool above = n >= below;
    n -= above ? below : 0;
    bits = above ? bits >> half : bits;
    at += above ? half : 0;
  }
  return at;
}

/// The lowest member, -1 of the empty set.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t lowest_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return bits == 0 ? -1 : __builtin_ctzll(bits);
#endif
}

}  // namespace hunch::kernel

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

/// The lowest member, -1 of the empty set.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t lowest_of(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return bits == 0 ? -1 : __builtin_ctzll(bits);
#endif
}

}  // namespace hunch::kernel

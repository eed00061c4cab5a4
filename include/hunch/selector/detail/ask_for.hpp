// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// Memory that a device is asked for before it is read. Hosts have hardware for that.

namespace hunch::kernel {

/// Into the cache of the whole device: for the next launch. Collective.
template <class T>
HUNCH_HOST_DEVICE void ask_for([[maybe_unused]] T& team, [[maybe_unused]] const void* from,
                               [[maybe_unused]] std::int64_t bytes) {
#if defined(__CUDA_ARCH__)
  constexpr std::int64_t line = 128;
  HUNCH_ROLLED
  for (std::int64_t at = team.rank() * line; at < bytes; at += team.size() * line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(from) + at));
  }
#endif
}

/// Into the cache of this team: for what it does next. Collective.
template <class T>
HUNCH_HOST_DEVICE void ask_nearby([[maybe_unused]] T& team, [[maybe_unused]] const void* from,
                                  [[maybe_unused]] std::int64_t bytes) {
#if defined(__CUDA_ARCH__)
  constexpr std::int64_t line = 128;
  HUNCH_ROLLED
  for (std::int64_t at = team.rank() * line; at < bytes; at += team.size() * line) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(static_cast<const char*>(from) + at));
  }
#endif
}

}  // namespace hunch::kernel

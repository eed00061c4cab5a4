// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// Memory that a device is asked for before it is read. Hosts have hardware for that.
///
/// A body of a few loads, of which each waits for the one before it, takes as long as these waits,
/// and most of them are for the arrays of its slot. One with a function ask_nearby(team, index),
/// which a launch calls first, has all of these on their way at once, and what it loads then lies
/// in the first cache.

namespace hunch::team {

#if defined(__CUDACC__)
/// What a thread has asked for nearby has arrived. A kernel ends with it after the bodies that it
/// runs; those of `executor::cuda` do.
__device__ inline void end_loads() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

namespace detail {

/// Loads the word at an address, for nobody: so its line is in the cache of the multiprocessor,
/// where a prefetch leaves it in that of the device (measured on an H100: 559 cycles for a load
/// after either kind of prefetch, 36 where the line is near). A copy to shared memory, for which
/// nobody waits, and which no compiler takes for useless.
__device__ inline void load_line([[maybe_unused]] std::uintptr_t at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr unsigned words = 256;  // threads may share one
  __shared__ std::uint32_t nobody[words];
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(nobody + threadIdx.x % words))),
               "l"(at & ~std::uintptr_t{3})
               : "memory");
#endif
}

}  // namespace detail
#endif

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

/// Into the cache of this team: for what it does next. Collective. In a kernel that ends with
/// `end_loads`.
template <class T>
HUNCH_HOST_DEVICE void ask_nearby([[maybe_unused]] T& team, [[maybe_unused]] const void* from,
                                  [[maybe_unused]] std::int64_t bytes) {
#if defined(__CUDA_ARCH__)
  constexpr std::int64_t line = 128;
  HUNCH_ROLLED
  for (std::int64_t at = team.rank() * line; at < bytes; at += team.size() * line) {
    detail::load_line(reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(at));
  }
#endif
}

/// Likewise for elements [first, first + count) of several arrays, of which some may be null: each
/// by a warp of its own, and none by the first one, which goes on.
template <class T, class... Elements>
HUNCH_HOST_DEVICE void ask_nearby_of_each([[maybe_unused]] T& team,
                                          [[maybe_unused]] std::int64_t first,
                                          [[maybe_unused]] std::int64_t count,
                                          [[maybe_unused]] const Elements*... arrays) {
#if defined(__CUDA_ARCH__)
  constexpr std::uintptr_t line = 128;
  const auto warp = static_cast<std::int32_t>(team.rank()) / 32;
  if (warp == 0) { return; }
  std::int32_t turn = 0;
  const auto ask = [&](const auto* of) {
    if (warp != ++turn || of == nullptr) { return; }
    const auto begin = reinterpret_cast<std::uintptr_t>(of + first) / line * line;
    const auto end = reinterpret_cast<std::uintptr_t>(of + first + count);
    const auto lane = static_cast<std::uintptr_t>(team.rank()) % 32;
    HUNCH_ROLLED
    for (std::uintptr_t at = begin + lane * line; at < end; at += 32 * line) {
      detail::load_line(at);
    }
  };
  (ask(arrays), ...);
#endif
}

/// Whether a body says what it is about to read.
template <class Body, class T>
concept AsksNearby = requires(const Body& body, T& team) {
  body.ask_nearby(team, 0);
};

/// Asks for what body `index` is about to read, if it says so. Collective.
template <class T, class Body>
HUNCH_HOST_DEVICE HUNCH_INLINE void ask_nearby_of(T& team, const Body& body, std::int32_t index) {
  if constexpr (AsksNearby<Body, T>) { body.ask_nearby(team, index); }
}

}  // namespace hunch::team

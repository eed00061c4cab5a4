// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// Memory that is prefetched. Addresses are counted, not pointed to: they may lie after the array,
/// where a pointer must not.

namespace hunch::team {

/// Where a line of memory begins.
using line_address = std::uintptr_t;
inline constexpr line_address line = 64;

/// Asks for the line at an address, whatever is there.
/// \tparam Locality as of `__builtin_prefetch`: 3, into the first cache; 2, into the second.
template <int Locality = 3>
HUNCH_HOST_DEVICE HUNCH_INLINE void load_soon(line_address at) {
#if !defined(__CUDA_ARCH__)
  __builtin_prefetch(reinterpret_cast<const void*>(at), 0, Locality);
#else
  static_cast<void>(at);
#endif
}

/// Whether this processor reads a stream of lines faster if nobody else asks for them. Measured: on
/// a Zen 4 (of AMD's family 25 those with AVX-512) dot products with rows in memory are 1.3 to 1.9
/// times as fast so, and as fast as reading them; on a Zen 5 and a Xeon they are faster if lines
/// are asked for.
HUNCH_HOST_DEVICE HUNCH_INLINE bool streams_unasked() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
  return __builtin_cpu_is("amdfam19h") && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/// Bytes that a loop over a row prefetches: into the second cache across the pages at which
/// hardware stops to do so, and from there into the first. Found by measurement.
inline constexpr line_address second_cache_ahead = 8192;
inline constexpr line_address first_cache_ahead = 1024;

/// Asks for what lies that much after `count` elements, which are about to be read.
template <class Element>
HUNCH_HOST_DEVICE HUNCH_INLINE void prefetch_after(const Element* elements, std::size_t count) {
  const auto from = reinterpret_cast<line_address>(elements);
  for (line_address at = from; at < from + count * sizeof(Element); at += line) {
    load_soon<2>(at + second_cache_ahead);
    load_soon(at + first_cache_ahead);
  }
}

}  // namespace hunch::team

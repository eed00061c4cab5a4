// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

#if defined(__SSE2__) && defined(__GNUC__)
#include <emmintrin.h>
#endif

namespace hunch::team {

#if defined(__SSE2__) && defined(__GNUC__)
namespace detail {

/// Past the caches, 16 bytes at a time.
template <class Element>
void store_past_caches(Element* to, const Element* from, std::int64_t count) {
  constexpr std::int64_t each = 16 / sizeof(Element);
  std::int64_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % 16 != 0; ++i) { to[i] = from[i]; }
  for (; i + each <= count; i += each) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  for (; i < count; ++i) { to[i] = from[i]; }
  _mm_sfence();  // such stores are not in the order of others
}

}  // namespace detail
#endif

/// Copies a row that is read again after a model's pass, if at all. By then it has left the caches,
/// as what it is written over has: stores that go past them save a thread on an x86-64 that memory
/// is read in order to be overwritten, which takes longer than the copy. Collective.
template <class Element, Team T>
HUNCH_HOST_DEVICE void put_away(T& team, Element* to, const Element* from, std::int64_t count) {
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
  if constexpr (is_one_thread<T>) { return detail::store_past_caches(to, from, count); }
#endif
  team.for_each(count, [=](std::int64_t i) { to[i] = from[i]; });
}

}  // namespace hunch::team

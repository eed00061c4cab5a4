// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <hunch/core/config.hpp>

namespace hunch::kernel {

/// The integer or pointer x, of which a compiler for a device then knows nothing: what is computed
/// of it is computed after this, and not in front of a loop that has no register to keep it in.
/// Costs no instruction. On a host it is x.
template <class T>
HUNCH_HOST_DEVICE HUNCH_INLINE T opaque(T x) {
  static_assert(std::is_integral_v<T> || std::is_pointer_v<T>);
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(x));
  } else {
    asm volatile("" : "+r"(x));
  }
#endif
  return x;
}

}  // namespace hunch::kernel

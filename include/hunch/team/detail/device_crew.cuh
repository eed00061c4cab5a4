// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/team/canonical.hpp>

namespace hunch::team::detail {

inline constexpr unsigned all_threads = 0xffffffffu;

/// Warps of a thread block of `Threads` threads as a crew: four, so that each thread has a lane of
/// the canonical sum; fewer where they do not come out even. See crew.hpp.
template <int Threads, int Loads>
struct device_crew {
  static constexpr int size = Threads % lane_count == 0 ? lane_count : Threads % 64 == 0 ? 64 : 32;
  static constexpr int warp = 32;
  static constexpr int loads = Loads;

  double* memory;  ///< [size] shared

  __device__ static std::int32_t thread() { return static_cast<std::int32_t>(threadIdx.x % size); }
  __device__ static void sync() {
    if constexpr (size == warp) {
      __syncwarp();
    } else {
      // Barrier 0 is that of the block.
      asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / size), "n"(size) : "memory");
    }
  }

  template <class Real>
  __device__ static Real fold(Real value) {
#pragma unroll
    for (int offset = warp / 2; offset > 0; offset /= 2) {
      value += __shfl_down_sync(all_threads, value, offset);
    }
    return value;
  }
  template <class Key>
  __device__ static Key largest(Key value) {
#pragma unroll
    for (int offset = warp / 2; offset > 0; offset /= 2) {
      const Key other = __shfl_xor_sync(all_threads, value, offset);
      value = other > value ? other : value;
    }
    return value;
  }
  template <class T>
  __device__ T& between(std::int32_t i) const {
    static_assert(sizeof(T) <= sizeof(double));
    return reinterpret_cast<T*>(memory)[i];
  }
};

}  // namespace hunch::team::detail

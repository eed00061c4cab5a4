// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/team/detail/device_crew.cuh>
#include <hunch/team/worker.hpp>

namespace hunch::team {

/// The worker of a thread block: a warp. See worker.hpp.
struct device_warp {
  static constexpr std::int32_t lanes = 32;
  static constexpr bool has_tensor_cores = true;
  template <class T>
  using per_lane = T;

  template <class F, class... X>
  __device__ HUNCH_INLINE static void each(F&& f, X&... x) {
    f(static_cast<std::int32_t>(threadIdx.x % 32), x...);
  }

  __device__ static void sync() { __syncwarp(); }

  __device__ static std::int32_t sum(std::int32_t x) {
    return __reduce_add_sync(detail::all_threads, x);
  }
  __device__ static void before(std::int32_t& x) {
    const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
    std::int32_t sum = x;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const std::int32_t other = __shfl_up_sync(detail::all_threads, sum, offset);
      sum += lane >= offset ? other : 0;
    }
    x = sum - x;
  }
  __device__ static std::uint32_t any(std::uint32_t x) {
    return __reduce_or_sync(detail::all_threads, x);
  }
  __device__ static std::uint64_t largest(std::uint64_t x) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const std::uint64_t other = __shfl_xor_sync(detail::all_threads, x, offset);
      x = other > x ? other : x;
    }
    return x;
  }

  __device__ HUNCH_INLINE static void multiply_add(product_sums& c, const factor_rows& a,
                                                   const factor_columns& b, bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c.of[0]), "+f"(c.of[1]), "+f"(c.of[2]), "+f"(c.of[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b.of[0]), "r"(b.of[1]));
  }
  __device__ HUNCH_INLINE static void multiply_add(product_sums& c, const factor_rows& a,
                                                   const factor_columns& b, float16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c.of[0]), "+f"(c.of[1]), "+f"(c.of[2]), "+f"(c.of[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b.of[0]), "r"(b.of[1]));
  }

  __device__ static void fold_halves(float& x) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) {
      x += __shfl_down_sync(detail::all_threads, x, offset);
    }
  }
};

}  // namespace hunch::team

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>

namespace bench {

/// Many small random weights of a few that were drawn.
template <class Weight>
void fill_at_random(Weight* to, std::size_t count) {
  std::minstd_rand random(1);
  const std::size_t drawn = std::min(count, std::size_t(1) << 20);
  for (std::size_t i = 0; i < drawn; ++i) {
    const float x = static_cast<float>(random() & 0xffffu) * 0x1p-16f - 0.5f;
    if constexpr (std::is_same_v<Weight, float>) {
      to[i] = x;
    } else if constexpr (std::is_same_v<Weight, hunch::bfloat16>) {
      to[i] = hunch::to_bfloat16(x);
    } else if constexpr (std::is_same_v<Weight, hunch::float16>) {
      to[i] = hunch::to_float16(x);
    } else {
      to[i] = static_cast<std::int8_t>(254.0f * x);
    }
  }
  for (std::size_t i = drawn; i < count; i += drawn) {
    std::memcpy(to + i, to, std::min(drawn, count - i) * sizeof(Weight));
  }
}

}  // namespace bench

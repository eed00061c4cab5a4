// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <engine/simd.hpp>

namespace bench {

/// Reads floats as fast as one thread can: what work that must read so many bytes is held against.
/// Returns their sum, so that no compiler leaves it out.
inline float read_once(const float* first, std::size_t count) {
  constexpr std::size_t step = 8 * engine::lanes;
  constexpr std::size_t ahead = 1024;  // 4 KiB; a third faster from the last-level cache
  constexpr std::size_t page = 1024;
  constexpr std::size_t pages_ahead = 4 * page;  // their addresses: a twentieth faster from memory
  engine::f32x16 sums[8];
  for (auto& s : sums) { s = engine::splat(0.0f); }
  for (std::size_t i = 0; i + step <= count; i += step) {
    if (i % page == 0) { engine::prefetch(first + i + pages_ahead); }
    for (std::size_t j = 0; j < 8; ++j) {
      const float* const p = first + i + j * engine::lanes;
      engine::prefetch(p + ahead);
      sums[j] = sums[j] + engine::load(p);
    }
  }
  for (int j = 1; j < 8; ++j) { sums[0] = sums[0] + sums[j]; }
  return engine::sum(sums[0]);
}

}  // namespace bench

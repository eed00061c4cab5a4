// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace engine {

/// The weights and activations that have one scale where weights have four bits.
inline constexpr int group_size = 32;

/// The 4-bit integers of a group, and their scale.
struct quantised_group {
  std::uint16_t scale = 0;  ///< bf16
  std::int8_t values[group_size] = {};
};

/// The largest value becomes -8 or one near it: of a few scales the one with the least square
/// error.
quantised_group quantise(const float (&values)[group_size]);

}  // namespace engine

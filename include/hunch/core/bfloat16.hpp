// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/config.hpp>

namespace hunch {

/// The upper half of a float, for weights and logits. Bit-compatible with the bfloat16 types of
/// CUDA and of compilers that have one; this one exists everywhere.
struct bfloat16 {
  constexpr bfloat16() = default;
  HUNCH_HOST_DEVICE constexpr explicit bfloat16(std::uint16_t the_bits) : bits(the_bits) {}
  /// A number is not its bits: `to_bfloat16` converts.
  template <std::floating_point F>
  explicit bfloat16(F) = delete;

  std::uint16_t bits = 0;
};

HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float to_float(bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float to_float(float x) { return x; }
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float to_float(std::int8_t x) {
  return static_cast<float>(x);
}

/// The nearest bfloat16, ties to even.
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr bfloat16 to_bfloat16(float x) {
  const auto b = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  const bool is_nan = (b & 0x7fffffffu) > 0x7f800000u;
  return bfloat16{static_cast<std::uint16_t>(is_nan ? (b >> 16) | 0x40u : rounded)};
}

}  // namespace hunch

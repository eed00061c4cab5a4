// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/core/config.hpp>

namespace hunch {

/// The 16-bit floating-point number of IEEE 754, for weights and logits. Bit-compatible with the
/// half types of CUDA and of compilers that have one; this one exists everywhere.
struct float16 {
  constexpr float16() = default;
  HUNCH_HOST_DEVICE constexpr explicit float16(std::uint16_t the_bits) : bits(the_bits) {}
  /// A number is not its bits: `to_float16` converts.
  template <std::floating_point F>
  explicit float16(F) = delete;

  std::uint16_t bits = 0;
};

HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float to_float(float16 x) {
  // Moved into a float's place it has an exponent that is 112 too small, subnormal or not.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(x.bits & 0x7fffu) << 13;
  const float scaled = __builtin_bit_cast(float, magnitude) * 0x1p112f;
  const std::uint32_t special = (x.bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scaled) | special | sign);
}

/// The nearest float16, ties to even; beyond 65,519 an infinity.
HUNCH_HOST_DEVICE HUNCH_INLINE constexpr float16 to_float16(float x) {
  const auto b = __builtin_bit_cast(std::uint32_t, x);
  const auto sign = static_cast<std::uint16_t>((b >> 16) & 0x8000u);
  const std::uint32_t magnitude = b & 0x7fffffffu;
  std::uint32_t bits = 0x7e00u;  // NaN
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 1/2 leaves its steps of 2^-24 in the low bits.
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    bits = __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000u;
  } else if (magnitude < 0x477ff000u) {
    bits = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude <= 0x7f800000u) {
    bits = 0x7c00u;
  }
  return float16{static_cast<std::uint16_t>(bits | sign)};
}

}  // namespace hunch

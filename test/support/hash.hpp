// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <hunch/core/types.hpp>

namespace hunch::test {

/// A fixed mixing function (splitmix64): toy logits and test schedules come from it, so that they
/// are the same on every machine.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The hash of a text, extended by one token.
constexpr std::uint64_t extend(std::uint64_t text, token t) {
  return mix(text ^ (static_cast<std::uint64_t>(t) + 1));
}

constexpr std::uint64_t hash_of(std::span<const token> text) {
  std::uint64_t hash = 0;
  for (const token t : text) { hash = extend(hash, t); }
  return hash;
}

/// In [0, 1).
constexpr double fraction(std::uint64_t x) { return static_cast<double>(x >> 11) * 0x1.0p-53; }

/// A random sequence for schedules; not a source of the library.
struct dice {
  std::uint64_t state;

  constexpr std::uint64_t next() { return mix(state++); }
  constexpr std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(next() % static_cast<std::uint64_t>(n));
  }
  constexpr double unit() { return fraction(next()); }
};

}  // namespace hunch::test

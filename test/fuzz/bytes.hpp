// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace hunch::test {

/// The fuzzer's input, taken in pieces; zeros when it is used up.
struct bytes {
  const std::uint8_t* data;
  std::size_t size;

  bool empty() const { return size == 0; }
  std::uint8_t byte() {
    if (size == 0) { return 0; }
    --size;
    return *data++;
  }
  std::int32_t below(std::int32_t n) { return byte() % n; }
  std::uint32_t word() {
    std::uint32_t w = 0;
    for (int i = 0; i < 4; ++i) { w = (w << 8) | byte(); }
    return w;
  }
  /// Any float at all, special ones more often.
  float real() {
    switch (byte() % 8) {
      case 0:
        return std::bit_cast<float>(word());
      case 1:
        return -__builtin_inff();
      case 2:
        return std::bit_cast<float>(word() & 0x807fffffu);
      case 3:
        return 0.0f;
      default:
        return static_cast<float>(byte()) / 16.0f - 8.0f;
    }
  }
};

/// Stays in place with NDEBUG.
inline void must(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// Numbers of sixteen bits, all of them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>

namespace hunch::test {
namespace {

TEST_CASE("numbers of sixteen bits") {
  // All of them, there and back; and what is halfway goes to the even one.
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const float wide = to_float(float16{narrow});
    const int exponent = static_cast<int>(bits >> 10 & 31u);
    const double fraction = static_cast<double>(bits & 1023u);
    if (exponent == 31) {
      CHECK((fraction == 0.0 ? std::isinf(wide) : std::isnan(wide)));
      CHECK((to_float16(wide).bits & 0x7c00u) == 0x7c00u);
      if (fraction == 0.0) { CHECK(to_float16(wide).bits == narrow); }
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
    CHECK(static_cast<double>(wide) == ((bits & 0x8000u) != 0 ? -magnitude : magnitude));
    CHECK(to_float16(wide).bits == narrow);
    const double step = std::ldexp(1.0, std::max(exponent, 1) - 25);
    const auto up = [&](double by) {
      return to_float16(static_cast<float>(magnitude + by * step)).bits & 0x7fffu;
    };
    const std::uint32_t own = bits & 0x7fffu;
    CHECK(up(0.499) == own);
    CHECK(up(0.5) == own + (own & 1u));
    CHECK(up(0.501) == own + 1);
  }
  CHECK(std::isnan(to_float(to_float16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7fffffffu)))));
  CHECK(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::infinity()))));
}

}  // namespace
}  // namespace hunch::test

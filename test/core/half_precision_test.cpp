// SPDX-License-Identifier: Apache-2.0

// Numbers of sixteen bits, all of them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/logit.hpp>

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

TEST_CASE_TEMPLATE("logits of sixteen bits are widened exactly, and written as the nearest", Half,
                   bfloat16, float16) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const Half x{static_cast<std::uint16_t>(bits)};
    CHECK(std::bit_cast<std::uint32_t>(to_real(x)) == std::bit_cast<std::uint32_t>(to_float(x)));
    if (std::isnan(to_real(x))) {
      CHECK(std::isnan(to_real(to_logit<Half>(to_real(x)))));
    } else {
      CHECK(to_logit<Half>(to_real(x)).bits == bits);
    }
  }
  CHECK(to_real(to_logit<Half>(infinity)) == infinity);
  CHECK(to_real(to_logit<Half>(-infinity)) == -infinity);
  // A finite number stays one: the largest there is.
  const float most = to_real(to_logit<Half>(largest));
  CHECK(most < infinity);
  CHECK(to_real(to_logit<Half>(-largest)) == -most);
  CHECK(to_real(Half{static_cast<std::uint16_t>(to_logit<Half>(most).bits + 1)}) == infinity);
}

TEST_CASE("logits that are real numbers are what they are") {
  static_assert(std::is_same_v<real_of<float>, float> && std::is_same_v<real_of<double>, double>);
  // A number that were taken for bits would be another number.
  static_assert(!std::is_constructible_v<float16, float> &&
                !std::is_constructible_v<bfloat16, double> &&
                std::is_constructible_v<float16, std::uint16_t>);
  static_assert(LogitType<bfloat16> && LogitType<float16> && !LogitType<int>);
  CHECK(to_logit<float>(1e-42f) == 1e-42f);
  CHECK(to_logit<double>(to_real(0.1)) == 0.1);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "copy.hpp"

/// \file
/// How near what models on an executor say is to what the engine on the CPU says.

namespace test {

/// Every product rounds its inputs to 8 bits, and so are weights, keys and values: 2^-9 relative
/// each. Over the few layers here the errors add up to about a hundredth of the logits' spread.
inline constexpr double bf16_tolerance = 3e-2;

inline double spread(const std::vector<float>& row) {
  const auto [low, high] = std::minmax_element(row.begin(), row.end());
  return static_cast<double>(*high) - static_cast<double>(*low);
}

/// The largest difference, relative to the spread of what is expected.
inline double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (std::size_t v = 0; v < got.size(); ++v) {
    const double d = std::fabs(static_cast<double>(got[v]) - static_cast<double>(expected[v]));
    worst = std::isnan(d) ? 1e9 : std::max(worst, d);
  }
  return worst / spread(expected);
}

}  // namespace test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "toy_model.hpp"

namespace hunch::test {

inline constexpr std::uint64_t uniforms = std::uint64_t(1) << 53;

/// The exact law of a function from a random word to [0, n): how many of the 2^53 uniforms each
/// result gets, found by bisection. `order(i)` is the place of result i in the order in which the
/// function walks; the function must be monotone in it, which is checked at every visited word.
template <class Function, class Order>
std::vector<std::uint64_t> word_counts(std::int64_t n, Function&& function, Order&& order) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(n), 0);
  const auto at = [&](std::uint64_t u) { return static_cast<std::int64_t>(function(u << 11)); };
  const auto count = [&](std::int64_t result) -> std::uint64_t& {
    require(result >= 0 && result < n, "a result outside the range");
    return counts[static_cast<std::size_t>(result)];
  };
  const auto split = [&](auto&& self, std::uint64_t low, std::int64_t first, std::uint64_t high,
                         std::int64_t last) -> void {
    require(order(first) <= order(last), "the draw is not monotone in the random word");
    if (first == last) {
      count(first) += high - low + 1;
    } else if (high - low == 1) {
      ++count(first);
      ++count(last);
    } else {
      const std::uint64_t middle = low + (high - low) / 2;
      self(self, low, first, middle, at(middle));
      self(self, middle + 1, at(middle + 1), high, last);
    }
  };
  split(split, 0, at(0), uniforms - 1, at(uniforms - 1));
  return counts;
}

/// The total variation distance of counted uniforms from the law proportional to `weights`.
template <class Weights>
double total_variation(const std::vector<std::uint64_t>& counts, const Weights& weights) {
  long double sum = 0;
  for (const auto w : weights) { sum += static_cast<long double>(w); }
  long double distance = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const long double got =
        static_cast<long double>(counts[i]) / static_cast<long double>(uniforms);
    distance += std::abs(got - static_cast<long double>(weights[i]) / sum);
  }
  return static_cast<double>(distance / 2);
}

/// The place of element i in the order of a draw: tile, lane, element.
inline std::int64_t draw_order(std::int64_t i) {
  return i / 4096 * 4096 + i % 128 * 32 + i % 4096 / 128;
}

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace hunch::test {

/// Pearson's statistic of counts against probabilities.
inline double chi_squared(const std::vector<std::int64_t>& counts, const std::vector<double>& law) {
  const auto total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t(0)));
  double sum = 0.0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * law[i];
    sum += (static_cast<double>(counts[i]) - expected) *
           (static_cast<double>(counts[i]) - expected) / expected;
  }
  return sum;
}

/// The value that chi-squared with `degrees` of freedom exceeds with probability 1e-7
/// (Wilson-Hilferty).
inline double bound(double degrees) {
  const double z = 5.2;
  const double c = 2.0 / (9.0 * degrees);
  return degrees * std::pow(1.0 - c + z * std::sqrt(c), 3.0);
}

}  // namespace hunch::test

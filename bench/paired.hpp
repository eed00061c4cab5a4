// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "common.hpp"

namespace bench {

/// How much faster one of two candidates that take turns is, over several texts. Of each text the
/// median of its rounds, so that a disturbed one decides nothing; of these the harmonic mean: the
/// ratio of the times of all texts, were each as long for the slower one.
class paired_rounds {
 public:
  explicit paired_rounds(std::size_t texts) : ratios_(texts) {}

  void add(std::size_t text, double ratio) { ratios_[text].push_back(ratio); }

  double speed_up() const {
    double sum = 0.0;
    for (const auto& of : ratios_) { sum += 1.0 / median(of); }
    return static_cast<double>(ratios_.size()) / sum;
  }

  /// The standard error of `speed_up`, from how the rounds of a text differ; they should be two at
  /// least.
  double error() const {
    // Of a normal law: deviation over mean absolute deviation, and that of a median over that of a
    // mean, are both the root of pi / 2.
    constexpr double half_pi = 1.5707963267948966;
    double sum = 0.0;
    double rounds = 0.0;
    for (const auto& of : ratios_) {
      for (const double ratio : of) { sum += std::abs(ratio - median(of)); }
      rounds += static_cast<double>(of.size());
    }
    // As many deviations are free as there are rounds beyond the first of each text.
    const double all = rounds - static_cast<double>(ratios_.size());
    return half_pi * sum / (rounds * std::sqrt(all));
  }

  /// Whether it is known on which side of a goal the speed-up lies.
  bool decides(double goal) const { return std::abs(speed_up() - goal) > 2.0 * error(); }

 private:
  std::vector<std::vector<double>> ratios_;  ///< [text]
};

}  // namespace bench

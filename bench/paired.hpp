// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "common.hpp"

namespace bench {

/// A round: runs of the same requests, plain and faster. \tparam Run has a `rate()`
template <class Run>
struct paired_runs {
  Run plain;
  Run fast;

  double ratio() const { return fast.rate() / plain.rate(); }
};

/// Takes one. \param plain_first  by turns, so that neither always follows the other.
template <class Plain, class Fast>
auto run_pair(bool plain_first, const Plain& run_plain, const Fast& run_fast) {
  paired_runs<decltype(run_fast())> out;
  if (plain_first) { out.plain = run_plain(); }
  out.fast = run_fast();
  if (!plain_first) { out.plain = run_plain(); }
  return out;
}

/// Runs each of `all` once. They begin with another one in every round, so that none always follows
/// the same one. Returns what they return, in their order.
template <std::size_t N>
std::array<double, N> take_turns(int round, const std::array<std::function<double()>, N>& all) {
  std::array<double, N> out{};
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t at = (i + static_cast<std::size_t>(round)) % N;
    out[at] = all[at]();
  }
  return out;
}

/// How much faster one of two candidates that take turns is, over several texts. Of each text the
/// median of its rounds, so that a disturbed one decides nothing; of these the harmonic mean: the
/// ratio of the times of all texts, were each as long for the slower one.
class paired_rounds {
 public:
  explicit paired_rounds(std::size_t texts) : ratios_(texts) {}

  void add(std::size_t text, double ratio) { ratios_[text].push_back(ratio); }

  /// Those of other texts besides.
  paired_rounds& operator+=(const paired_rounds& others) {
    ratios_.insert(ratios_.end(), others.ratios_.begin(), others.ratios_.end());
    return *this;
  }

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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hunch::length::detail {

/// The last few of some times, and what is typical of them where a machine is disturbed now and
/// then. They are read more often than they change.
template <std::size_t Size>
class recent {
 public:
  void add(double value) {
    values_[static_cast<std::size_t>(count_) % Size] = static_cast<float>(value);
    count_ = count_ + 1 == static_cast<std::int32_t>(2 * Size) ? static_cast<std::int32_t>(Size)
                                                               : count_ + 1;
    median_ = middle();
    typical_ = size() < std::max(Size / 2, std::size_t{3}) ? median_ : mean_below(2.0 * median_);
  }
  /// As many as were added, or more than all that are kept.
  std::int32_t count() const { return count_; }
  /// The lower one of two, 0 of nothing.
  double median() const { return median_; }
  /// The mean without the largest and the smallest, of which nothing counts for more than twice
  /// the median: what a sum of many is made of, but for what happens once. Of a few the median.
  double typical() const { return typical_; }

 private:
  std::size_t size() const { return std::min(static_cast<std::size_t>(count_), Size); }
  double middle() const {
    std::array<float, Size> sorted = values_;
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>((size() - 1) / 2);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(size()));
    return *at;
  }
  double mean_below(double most) const {
    double sum = 0.0;
    double least = most;
    double largest = 0.0;
    for (std::size_t i = 0; i < size(); ++i) {
      const double value = std::min(static_cast<double>(values_[i]), most);
      sum += value;
      least = std::min(least, value);
      largest = std::max(largest, value);
    }
    return (sum - least - largest) / static_cast<double>(size() - 2);
  }

  std::array<float, Size> values_{};
  std::int32_t count_ = 0;
  double median_ = 0.0;
  double typical_ = 0.0;
};

}  // namespace hunch::length::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hunch::length::detail {

/// What one more drafted level takes: the slope of a line through what drafting took over the
/// levels that were drafted. What drafting takes however deep it is, such as reading what was
/// emitted, is not in it.
///
/// The median of the slopes between any two recent steps of different lengths (Theil 1950, Sen
/// 1968): steps that were disturbed decide nothing. While there are few such pairs, the median cost
/// of a level.
class level_line {
 public:
  void add(std::int32_t levels, double seconds) {
    steps_[static_cast<std::size_t>(count_) % kept] = {static_cast<float>(levels),
                                                       static_cast<float>(seconds)};
    count_ = count_ + 1 == static_cast<std::int32_t>(2 * kept) ? static_cast<std::int32_t>(kept)
                                                               : count_ + 1;
    slope_ = slope();
  }

  /// Seconds of one more level; 0 before anything is known.
  double seconds() const { return slope_; }

 private:
  static constexpr std::size_t kept = 15;
  static constexpr std::size_t enough = 12;  ///< pairs of steps
  static constexpr float least = 0.25f;      ///< of the mean cost of a level, which one more costs

  struct drafted {
    float levels;
    float seconds;
  };

  float slope() const {
    const std::size_t size = std::min(static_cast<std::size_t>(count_), kept);
    std::array<float, kept*(kept - 1) / 2> slopes{};
    for (std::size_t i = 0; i < size; ++i) { slopes[i] = steps_[i].seconds / steps_[i].levels; }
    const float mean = median(slopes, size);
    std::size_t pairs = 0;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        const float more = steps_[i].levels - steps_[k].levels;
        if (more != 0.0f) { slopes[pairs++] = (steps_[i].seconds - steps_[k].seconds) / more; }
      }
    }
    return pairs < enough ? mean : std::clamp(median(slopes, pairs), least * mean, mean);
  }

  /// The lower one of two.
  template <std::size_t Size>
  static float median(std::array<float, Size>& values, std::size_t count) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
    std::nth_element(values.begin(), at, values.begin() + static_cast<std::ptrdiff_t>(count));
    return *at;
  }

  std::array<drafted, kept> steps_{};
  std::int32_t count_ = 0;
  float slope_ = 0.0f;
};

}  // namespace hunch::length::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/message.hpp>

namespace hunch::planner {

/// r(n): what a target pass over n rows costs, over one with a single row. A value, which bodies
/// read wherever they run.
class row_costs {
 public:
  static constexpr std::int32_t capacity = 128;  ///< rows whose cost is known

  /// r = 1.
  row_costs() = default;
  /// \param curve r(1), r(2), ...: an array, a vector or a span of double; empty: r = 1.
  /// \throws std::invalid_argument for more than `capacity` of them.
  template <class Curve>
  requires(std::convertible_to<const Curve&, std::span<const double>> &&
           !std::same_as<Curve, row_costs>) row_costs(const Curve& curve) {
    const std::span<const double> known{curve};
    if (known.size() > static_cast<std::size_t>(capacity)) {
      throw std::invalid_argument(
          message({"hunch::planner::row_costs: the costs of ",
                   static_cast<std::int64_t>(known.size()), " rows, and room for ", capacity}));
    }
    size_ = static_cast<std::int32_t>(known.size());
    std::copy(known.begin(), known.end(), of_);
  }

  HUNCH_HOST_DEVICE std::int32_t size() const { return size_; }
  HUNCH_HOST_DEVICE const double* begin() const { return of_; }
  HUNCH_HOST_DEVICE const double* end() const { return of_ + size_; }

  /// r(n) by linear interpolation; beyond the end of the curve by its last slope. 1 where n < 1.
  HUNCH_HOST_DEVICE double at(double n) const {
    if (size_ == 0) { return 1.0; }
    const std::int32_t last = size_ - 1;
    const double steps = kernel::larger(n - 1.0, 0.0);
    const std::int32_t at =
        steps < static_cast<double>(last) ? static_cast<std::int32_t>(steps) : last;
    const std::int32_t from = at < last || last == 0 ? at : last - 1;  // where the slope is taken
    const double slope = last == 0 ? 0.0 : of_[from + 1] - of_[from];
    return std::fma(slope, steps - static_cast<double>(at), of_[at]);
  }

 private:
  std::int32_t size_ = 0;
  double of_[capacity] = {};
};

}  // namespace hunch::planner

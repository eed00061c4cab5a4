// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>

namespace engine::device {

/// The hidden states of a pass, those of a row always at the same place: what the head reads, and
/// what routers are trained on. A view: valid until the model's next pass.
class row_states {
 public:
  row_states(const hunch::status* statuses, float* states, std::int32_t size, std::int32_t stride)
      : statuses_(statuses), states_(states), size_(size), stride_(stride) {}

  /// `ok`, or `cache_full` where there was no room.
  hunch::status status(std::int32_t row) const { return statuses_[row]; }
  /// [hidden] of a row that was wanted and is `ok`.
  hunch::row_view<const float> hidden(std::int32_t row) const {
    return {states_ + static_cast<std::int64_t>(row) * stride_, size_};
  }
  /// [context_width] of all rows: the same.
  hunch::context_rows contexts() const { return {states_, stride_}; }
  const float* data() const { return states_; }

 private:
  const hunch::status* statuses_;
  float* states_;
  std::int32_t size_;
  std::int32_t stride_;
};

}  // namespace engine::device

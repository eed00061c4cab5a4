// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/length/cost.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/meter.hpp>

namespace hunch::length {

/// As deep as pays, by the prices of a `meter`, which outlives the drafter: as `cost`, whose prices
/// a clock names while the decoder runs.
struct metered {
  static constexpr bool needs_entropy = cost::needs_entropy;
  static constexpr bool needs_clock = true;
  using memory = cost::memory;

  /// \param by outlives this.
  explicit metered(const meter& by) : by_(&by), now_(by.policy()) {}

  /// Takes the prices of the step that begins. By the host: bodies read what it took.
  void refresh() { now_ = by_->policy(); }

  HUNCH_HOST_DEVICE std::int32_t begin(memory& m, std::int32_t max_depth) const {
    return now_.begin(m, max_depth);
  }
  HUNCH_HOST_DEVICE bool continues(memory& m, const length_evidence& e) const {
    return now_.continues(m, e);
  }
  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t drafted,
                                 std::int32_t accepted) const noexcept {
    now_.observe(m, drafted, accepted);
  }

 private:
  const meter* by_;
  cost now_;
};

static_assert(LengthPolicy<metered>);

}  // namespace hunch::length

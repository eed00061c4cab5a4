// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// The same length in every step. By default whatever the drafter and the request allow.
struct fixed {
  static constexpr bool needs_entropy = false;
  struct memory {};

  std::int32_t levels = 1 << 30;  ///< 0 or below: plain decoding

  HUNCH_HOST_DEVICE std::int32_t begin(memory&, std::int32_t max_depth) const {
    return kernel::clamped(levels, std::int32_t{0}, max_depth);
  }
  HUNCH_HOST_DEVICE bool continues(memory&, const length_evidence&) const { return true; }
  HUNCH_HOST_DEVICE void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

static_assert(LengthPolicy<fixed>);

}  // namespace hunch::length

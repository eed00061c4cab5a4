// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/length/length.hpp>

namespace hunch::length {

/// The same length in every step. By default whatever the drafter and the request allow.
struct fixed {
  static constexpr bool needs_entropy = false;
  struct memory {};

  std::int32_t levels = 1 << 30;  ///< 0 or below: plain decoding

  std::int32_t begin(memory&, std::int32_t max_depth) const {
    return std::clamp(levels, std::int32_t{0}, max_depth);
  }
  bool continues(memory&, const length_evidence&) const { return true; }
  void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

static_assert(LengthPolicy<fixed>);

}  // namespace hunch::length

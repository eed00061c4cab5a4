// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>

namespace hunch::length {

/// Drafts on as long as the newest token was probable enough under the law that it was drawn from.
/// (The rule, and the threshold, of assisted generation in Hugging Face's transformers)
struct confidence {
  static constexpr bool needs_entropy = false;
  struct memory {};

  double threshold = 0.4;  ///< in [0, 1]; 0: as deep as allowed

  HUNCH_HOST_DEVICE std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  HUNCH_HOST_DEVICE bool continues(memory&, const length_evidence& e) const {
    return e.probability >= threshold;
  }
  HUNCH_HOST_DEVICE void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

static_assert(LengthPolicy<confidence>);

}  // namespace hunch::length

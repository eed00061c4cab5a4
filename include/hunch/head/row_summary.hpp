// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/soft_sums.hpp>

namespace hunch {

/// The most elements of a row that a summary can keep.
inline constexpr std::int32_t max_ranked_children = 32;

/// An element of a row of logits as one number: of two the greater is the more probable one, the
/// one with the lower position on ties. A NaN is above everything.
class ranked_element {
 public:
  /// Below every element that has a probability: nothing.
  static constexpr std::int64_t none = static_cast<std::int64_t>(1) << 63;

  HUNCH_HOST_DEVICE HUNCH_INLINE static std::int64_t of(kernel::order<float>::key key,
                                                        std::int64_t position) {
    const auto high = static_cast<std::uint64_t>(static_cast<std::uint32_t>(key)) << 32;
    const auto low = ~static_cast<std::uint32_t>(position);
    const auto ranked = static_cast<std::int64_t>(high | low);
    return key <= kernel::order<float>::minus_infinity ? none : ranked;
  }
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::int32_t position(std::int64_t ranked) {
    return static_cast<std::int32_t>(~static_cast<std::uint32_t>(ranked & 0xffffffff));
  }
};

/// What the epilogue of a head leaves of a row of logits, tile by tile of 4,096 positions, so that
/// nobody has to read the row again for its law or for its best elements. A view; what is nullptr
/// is not made.
struct row_summary {
  float scale = 0.0f;  ///< log2(e) / temperature, of the weights
  team::soft_total<std::int32_t>* tiles =
      nullptr;                   ///< [tiles_of(size)] largest key, sum of weights in its frame
  std::int32_t count = 0;        ///< best elements of each tile, <= max_ranked_children
  std::int64_t* best = nullptr;  ///< [tiles_of(size), count] `ranked_element`s, the best first
};

}  // namespace hunch

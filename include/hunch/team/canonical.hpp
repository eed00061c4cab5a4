// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>

/// \file
/// The one order in which this library adds. Rounding is part of the text that a model writes, so
/// a sum must not depend on the team, the launch shape or the batch:
///
/// - a row is cut into tiles of 4,096 elements;
/// - a tile has 128 lanes (a warp with 16-byte loads, eight AVX-512 registers); lane l adds the
///   elements l, l + 128, ... in order, and the lanes fold by halves: l += l + 64, ..., l += l + 1;
/// - consecutive tiles form at most 64 groups; tiles combine in index order, in double, first
///   within their group, then over groups. Up to 262,144 elements a group is one tile.
///
/// A draw follows the same hierarchy (group, tile, lane, element), and so re-reads one tile.

namespace hunch::team {

inline constexpr std::int64_t tile_elements = 4096;
inline constexpr std::int32_t lane_count = 128;
inline constexpr std::int32_t max_groups = 64;

/// Elements that share a value of the gate of `reduce_where`.
inline constexpr std::int64_t gate_elements = 1024;

HUNCH_HOST_DEVICE constexpr std::int64_t tiles_of(std::int64_t n) {
  return (n + tile_elements - 1) / tile_elements;
}
HUNCH_HOST_DEVICE constexpr std::int64_t tiles_per_group(std::int64_t n) {
  return (tiles_of(n) + max_groups - 1) / max_groups;
}
HUNCH_HOST_DEVICE constexpr std::int32_t groups_of(std::int64_t n) {
  const std::int64_t per_group = tiles_per_group(n);
  return n == 0 ? 0 : static_cast<std::int32_t>((tiles_of(n) + per_group - 1) / per_group);
}

/// Elements that a body may collect at a time.
inline constexpr std::int32_t list_capacity = 2048;

/// What the ranks of a team share: the partial sums of the last `sum`, the lanes of a tile, a list.
/// `groups` is valid until the team's next `sum`.
struct shared_scratch {
  double groups[max_groups];
  double lanes[lane_count];
  std::int64_t list[list_capacity];  ///< for `compact`
};

/// What the group sums in a team's scratch are the sums of, remembered by each rank for itself: the
/// law of a row that has just been normalised can be drawn from without a second pass.
struct summed {
  const void* row = nullptr;  ///< nullptr: nothing that is remembered
  double scale = 0.0;
  double maximum = 0.0;
  double threshold = 0.0;
  std::int32_t last_kept = 0;

  friend constexpr bool operator==(const summed&, const summed&) = default;
};

/// The sum of f(i) for i in [begin, end), at most one tile, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE auto tile_sum(std::int64_t begin, std::int64_t end, F&& f) {
  using real = decltype(f(begin));
  real lane[lane_count] = {};
  std::int64_t base = begin;
  for (; base + lane_count <= end; base += lane_count) {
    for (std::int32_t l = 0; l < lane_count; ++l) { lane[l] += f(base + l); }
  }
  const auto rest = static_cast<std::int32_t>(end - base);
  for (std::int32_t l = 0; l < rest; ++l) { lane[l] += f(base + l); }
  for (std::int32_t half = lane_count / 2; half > 0; half /= 2) {
    for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
  }
  return lane[0];
}

/// lanes[l] = f(begin + l) + f(begin + l + 128) + ... for i in [begin, end), at most one tile, in
/// double, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE void tile_lanes(std::int64_t begin, std::int64_t end,
                                               double* HUNCH_RESTRICT lanes, F&& f) {
  using real = decltype(f(begin));
  for (std::int32_t l = 0; l < lane_count; ++l) { lanes[l] = 0.0; }
  for (std::int64_t base = begin; base < end; base += lane_count) {
    const auto count = static_cast<std::int32_t>(end - base < lane_count ? end - base : lane_count);
    real term[lane_count];  // apart from the widening, so that both loops vectorise
    for (std::int32_t l = 0; l < count; ++l) { term[l] = f(base + l); }
    for (std::int32_t l = 0; l < count; ++l) { lanes[l] += static_cast<double>(term[l]); }
  }
}

/// The sum of f(i) over the tiles of group `g` of a row of n elements, by a single thread.
template <class F>
HUNCH_HOST_DEVICE HUNCH_INLINE double group_sum(std::int64_t n, std::int32_t g, F&& f) {
  const std::int64_t per_group = tiles_per_group(n);
  const std::int64_t first = g * per_group;
  const std::int64_t last = first + per_group < tiles_of(n) ? first + per_group : tiles_of(n);
  double sum = 0.0;
  for (std::int64_t t = first; t < last; ++t) {
    const std::int64_t begin = t * tile_elements;
    const std::int64_t end = begin + tile_elements < n ? begin + tile_elements : n;
    sum += static_cast<double>(tile_sum(begin, end, f));
  }
  return sum;
}

}  // namespace hunch::team

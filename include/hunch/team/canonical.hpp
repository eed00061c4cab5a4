// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// The one order in which this library adds. Rounding is part of the text that a model writes, so
/// a sum must not depend on the team, the launch shape or the batch:
///
/// - a row is cut into tiles of 4,096 elements;
/// - a tile has 128 lanes (four warps, eight AVX-512 registers); lane l adds the
///   elements l, l + 128, ... in order, and the lanes fold by halves: l += l + 64, ..., l += l + 1;
/// - consecutive tiles form at most 128 groups; tiles combine in index order, in double, first
///   within their group, then over groups. Up to 524,288 elements, more than a vocabulary has, a
///   group is one tile: the crews of a team take groups, and would wait for one that has two.
///
/// A draw follows the same hierarchy (group, tile, lane, element), and so re-reads one tile. Eight
/// lanes after each other are a strand: it walks along 16 strands and the lanes of one, and not
/// along 128 lanes.

namespace hunch::team {

inline constexpr std::int64_t tile_elements = 4096;
inline constexpr std::int32_t lane_count = 128;
inline constexpr std::int32_t strand_count = 16;
inline constexpr std::int32_t lanes_of_strand = lane_count / strand_count;
inline constexpr std::int32_t max_groups = 128;

/// Elements that share a value of the gate of `reduce_where`.
inline constexpr std::int64_t gate_elements = 1024;

// Tiles are counted in 32 bits: these numbers are in registers beside every loop over a row.
HUNCH_HOST_DEVICE constexpr std::int32_t tiles_of(std::int64_t n) {
  return static_cast<std::int32_t>((n + tile_elements - 1) / tile_elements);
}
HUNCH_HOST_DEVICE constexpr std::int32_t tiles_per_group(std::int64_t n) {
  return (tiles_of(n) + max_groups - 1) / max_groups;
}
HUNCH_HOST_DEVICE constexpr std::int32_t groups_of(std::int64_t n) {
  const std::int32_t per_group = tiles_per_group(n);
  return n == 0 ? 0 : (tiles_of(n) + per_group - 1) / per_group;
}

/// What a team keeps of a tile that it draws from: its terms, or half of them where they are
/// double.
inline constexpr std::size_t term_bytes = tile_elements * sizeof(float);

/// Elements that a body may collect at a time.
inline constexpr std::int32_t list_capacity = 2048;

/// What the ranks of a team share: the partial sums of the last `sum`, the lanes of a tile and its
/// strands, a list.
/// `groups` is valid until the team's next `sum`. Only the team's operations write it.
struct shared_scratch {
  double groups[max_groups];
  std::int64_t tops[max_groups];  ///< for `soft_sum` and `sum_both`
  double lanes[lane_count];
  double strands[strand_count];
  std::int64_t list[list_capacity];  ///< for `compact`
};

/// The first of some bins with which the sums of theirs reach an amount; `list_capacity` if all of
/// them do not.
struct found_bin {
  std::int32_t bin = list_capacity;
  std::int64_t before = 0;  ///< the sums of the bins in front of it
  std::int64_t within = 0;  ///< its own
};

/// The amount of each where elements are counted: teams count faster than they add.
struct one_each {
  using integer = std::int32_t;
  HUNCH_HOST_DEVICE HUNCH_INLINE constexpr std::int64_t operator()(std::int64_t) const { return 1; }
};

/// That bin, by a single thread.
HUNCH_HOST_DEVICE HUNCH_INLINE found_bin first_reaching(const std::int64_t* sums,
                                                        std::int64_t wanted) {
  found_bin found;
  for (std::int32_t b = 0; b < list_capacity; ++b) {
    if (found.before + sums[b] >= wanted) {
      found.bin = b;
      found.within = sums[b];
      return found;
    }
    found.before += sums[b];
  }
  return found;
}

/// What the group sums in a team's scratch are the sums of: the law of a row that has just been
/// normalised can be drawn from without a second pass.
struct summed {
  const void* row = nullptr;  ///< nullptr: nothing that is remembered
  double scale = 0.0;
  double maximum = 0.0;
  double threshold = 0.0;
  std::int32_t last_kept = 0;
  bool has_tops = false;  ///< whether the largest keys of the groups are there, too

  /// Whether the sums are the same ones.
  HUNCH_HOST_DEVICE friend constexpr bool operator==(const summed& a, const summed& b) {
    return a.row == b.row && a.scale == b.scale && a.maximum == b.maximum &&
           a.threshold == b.threshold && a.last_kept == b.last_kept;
  }
};

/// The sum of the lanes of strand s.
HUNCH_HOST_DEVICE HUNCH_INLINE double strand_sum(const double* lanes, std::int32_t s) {
  double sum = lanes[s * lanes_of_strand];
  HUNCH_UNROLLED
  for (std::int32_t l = 1; l < lanes_of_strand; ++l) { sum += lanes[s * lanes_of_strand + l]; }
  return sum;
}

/// The lanes of a tile, combined by halves: in lane[0] at the end. The halves are constants, so
/// that hosts do it in registers.
template <std::int32_t Half, class Real, class Op>
HUNCH_HOST_DEVICE HUNCH_INLINE void fold_by_halves(Real* lane, const Op& op) {
  for (std::int32_t l = 0; l < Half; ++l) { lane[l] = op(lane[l], lane[l + Half]); }
  if constexpr (Half > 1) { fold_by_halves<Half / 2>(lane, op); }
}

/// The sum of the lanes of a tile.
template <class Real>
HUNCH_HOST_DEVICE HUNCH_INLINE Real fold_lanes(Real (&lane)[lane_count]) {
  fold_by_halves<lane_count / 2>(lane, [](Real a, Real b) HUNCH_INLINED { return a + b; });
  return lane[0];
}

}  // namespace hunch::team

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>

namespace hunch::team {

/// Elements [begin, end) of a row.
struct element_range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  HUNCH_HOST_DEVICE constexpr std::int64_t size() const { return end > begin ? end - begin : 0; }
  HUNCH_HOST_DEVICE constexpr bool contains(std::int64_t i) const { return i >= begin && i < end; }
  /// What both have.
  HUNCH_HOST_DEVICE constexpr element_range within(const element_range& other) const {
    return {kernel::larger(begin, other.begin), kernel::smaller(end, other.end)};
  }
};

/// Who holds which tiles of a row that is divided among ranks: those of a rank come one after the
/// other, and ranks in order. Whole tiles, for a sum is made of the sums of tiles: these are the
/// same bits whoever adds them. A rank may hold none. A view.
struct row_shards {
  const std::int32_t* first_tile = nullptr;  ///< [ranks + 1], from 0 to all tiles
  std::int32_t ranks = 1;
  std::int32_t rank = 0;        ///< this one
  std::int32_t most_tiles = 0;  ///< that a rank holds
  std::int32_t size = 0;        ///< elements of a row

  HUNCH_HOST_DEVICE std::int32_t begin(std::int32_t of) const { return first_tile[of]; }
  HUNCH_HOST_DEVICE std::int32_t end(std::int32_t of) const { return first_tile[of + 1]; }
  /// The rank that holds a tile.
  HUNCH_HOST_DEVICE std::int32_t holder(std::int32_t tile) const {
    std::int32_t of = 0;
    HUNCH_ROLLED
    while (tile >= end(of)) { ++of; }
    return of;
  }
  /// What this rank holds of a row.
  HUNCH_HOST_DEVICE element_range held() const {
    const std::int64_t last = end(rank) * tile_elements;
    return {begin(rank) * tile_elements, last < size ? last : size};
  }
};

}  // namespace hunch::team

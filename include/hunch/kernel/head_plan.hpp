// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel {

/// A strip: 16 adjacent rows of a head, the first a multiple of 16. What one worker multiplies.
inline constexpr std::int32_t strip_rows = 16;

/// Lists that share a plan.
inline constexpr std::int32_t planned_lists = 64;

/// Strips that one team looks at when a plan is made.
inline constexpr std::int32_t segment_strips = 512;

HUNCH_HOST_DEVICE constexpr std::int32_t strips_of(std::int32_t rows) {
  return (rows + strip_rows - 1) / strip_rows;
}
HUNCH_HOST_DEVICE constexpr std::int32_t segments_of(std::int32_t rows) {
  return (strips_of(rows) + segment_strips - 1) / segment_strips;
}

/// Which strips of a head are wanted, and by which of up to 64 lists: so a row that several lists
/// hold is read once. A view.
struct head_plan {
  std::uint64_t* wanted = nullptr;  ///< [strips] bit i: list i holds some of its rows
  std::int32_t* strips = nullptr;   ///< [segments, segment_strips] the wanted ones of each segment
  std::int32_t* counts = nullptr;   ///< [segments] how many
  std::int32_t segments = 0;

  /// Wanted strips.
  HUNCH_HOST_DEVICE std::int32_t size() const {
    std::int32_t all = 0;
    for (std::int32_t s = 0; s < segments; ++s) { all += counts[s]; }
    return all;
  }
  /// Number `i` of them.
  HUNCH_HOST_DEVICE std::int32_t strip(std::int32_t i) const {
    std::int32_t segment = 0;
    while (i >= counts[segment]) { i -= counts[segment++]; }
    return strips[segment * segment_strips + i];
  }
};

/// What a list holds of the strip that begins at head row `first`.
struct strip_share {
  std::int32_t before = 0;  ///< positions of the list in front of the strip
  std::uint32_t rows = 0;   ///< bit i: row first + i is in the list

  HUNCH_HOST_DEVICE bool holds(std::int32_t i) const { return (rows >> i & 1u) != 0; }
  /// The position of row first + i, which the list holds.
  HUNCH_HOST_DEVICE std::int32_t position(std::int32_t i) const {
    std::int32_t at = before;
    for (std::uint32_t below = rows & ((1u << i) - 1u); below != 0; below &= below - 1) { ++at; }
    return at;
  }
};

/// By a worker, for all of its lanes.
template <class Worker>
HUNCH_HOST_DEVICE strip_share share_of(Worker& worker, const shortlist& list, std::int32_t first) {
  const auto inside = [first](std::int32_t row) {
    const std::int32_t i = row - first;
    return i < 0 ? 0 : i < strip_rows ? i : strip_rows;
  };
  typename Worker::template per_lane<std::int32_t> before;
  typename Worker::template per_lane<std::uint32_t> rows;
  worker.each(
      [&](std::int32_t lane, std::int32_t& in_front, std::uint32_t& held) {
        in_front = 0;
        held = 0;
        // Without branches, so that host loops vectorise.
        for (std::int32_t r = lane; r < list.range_count; r += Worker::lanes) {
          const row_range range = list.ranges[r];
          const std::int32_t end = range.end < first ? range.end : first;
          in_front += range.begin < end ? end - range.begin : 0;
          held |= (1u << inside(range.end)) - (1u << inside(range.begin));
        }
      },
      before, rows);
  return {worker.sum(before), worker.any(rows)};
}

/// Plans segment `index` for the lists [first, first + planned_lists) of `asked`.
struct plan_head {
  head_rows<float> asked;
  std::int32_t first;
  std::int32_t rows;  ///< of the head
  head_plan plan;

  /// How many lists it is for.
  HUNCH_HOST_DEVICE std::int32_t lists() const {
    return asked.size - first < planned_lists ? asked.size - first : planned_lists;
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t begin = index * segment_strips;
    const std::int32_t left = strips_of(rows) - begin;
    const std::int32_t count = left < segment_strips ? left : segment_strips;
    const std::int32_t all = lists();
    std::uint64_t* const wanted = plan.wanted + begin;
    team.for_each(count, [=, *this](std::int64_t s) {
      const auto row = (begin + static_cast<std::int32_t>(s)) * strip_rows;
      std::uint64_t mask = 0;
      for (std::int32_t i = 0; i < all; ++i) {
        const bool there = asked.row[first + i] >= 0 && meets(asked.lists[first + i], row);
        mask |= static_cast<std::uint64_t>(there) << i;
      }
      wanted[s] = mask;
    });
    const std::int32_t found = team.compact(
        count, [=](std::int64_t s) { return wanted[s] != 0; },
        [=](std::int64_t s) { return begin + s; }, count);
    const std::int64_t* const list = team.scratch().list;
    std::int32_t* const strips = plan.strips + index * segment_strips;
    team.for_each(found, [=](std::int64_t i) { strips[i] = static_cast<std::int32_t>(list[i]); });
    if (team.rank() == 0) { plan.counts[index] = found; }
  }

  /// Whether the list holds a row of the strip that begins at `row`.
  HUNCH_HOST_DEVICE static bool meets(const shortlist& list, std::int32_t row) {
    std::int32_t low = 0;  // ranges in front of this one begin before the strip ends
    std::int32_t high = list.range_count;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      if (list.ranges[middle].begin < row + strip_rows) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low > 0 && list.ranges[low - 1].end > row;
  }
};

}  // namespace hunch::kernel

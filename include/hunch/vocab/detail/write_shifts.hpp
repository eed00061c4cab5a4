// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/shortlist.hpp>

namespace hunch::kernel {

/// The parts of a layout as bodies see them: the core is the rows in front of begin[0], cluster c
/// the rows [begin[c], begin[c + 1]), and after them are the tokens without a row.
struct layout_parts {
  const std::int32_t* begin = nullptr;  ///< [clusters + 1]
  std::int32_t clusters = 0;

  HUNCH_HOST_DEVICE std::int32_t count() const { return clusters + 2; }
  /// The first row of a part.
  HUNCH_HOST_DEVICE std::int32_t first(std::int32_t part) const {
    return part == 0 ? 0 : begin[part - 1];
  }
  /// The row after it.
  HUNCH_HOST_DEVICE std::int32_t end(std::int32_t part) const {
    return part <= clusters ? begin[part] : begin[clusters];
  }
};

/// Writes the shifts [parts.count()] of a list that is made of whole parts (see `shortlist`).
/// Collective.
template <Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void write_shifts(T& team, const layout_parts& parts,
                                                           const row_range* ranges,
                                                           std::int32_t count,
                                                           std::int32_t* shifts) {
  // Some parts that follow each other pass the ranges together.
  constexpr std::int32_t together = 32;
  const layout_parts of = parts;
  team.for_each((of.count() + together - 1) / together, [=](std::int64_t i) {
    const auto from = static_cast<std::int32_t>(i) * together;
    const std::int32_t to = from + together < of.count() ? from + together : of.count();
    std::int32_t before = 0;  // rows in the ranges that are passed
    std::int32_t r = 0;
    HUNCH_ROLLED
    for (std::int32_t part = from; part < to; ++part) {
      const std::int32_t first = of.first(part);
      HUNCH_ROLLED
      for (; r < count && ranges[r].end <= first; ++r) {
        before += ranges[r].end - ranges[r].begin;
      }
      const bool held = r < count && ranges[r].begin <= first && first < of.end(part);
      shifts[part] = held ? before - ranges[r].begin : shortlist::absent;
    }
  });
}

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

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
  std::uint64_t* wanted = nullptr;  ///< [strips_of(rows)] bit i: list i holds some of its rows
  /// [segments, segment_strips] the wanted ones of each segment; not written by threads.
  std::int32_t* strips = nullptr;
  std::int32_t* counts = nullptr;  ///< [segments] how many
  std::int32_t segments = 0;       ///< segments_of(rows)

  /// Wanted strips.
  HUNCH_HOST_DEVICE std::int32_t size() const {
    std::int32_t all = 0;
    for (std::int32_t s = 0; s < segments; ++s) { all += counts[s]; }
    return all;
  }
  /// The row at which number `i` of them begins, counted in the order of rows, out of `rows`; the
  /// end of the head after the last. For a thread: it looks at up to a segment.
  HUNCH_HOST_DEVICE std::int32_t row_of(std::int32_t i, std::int32_t rows) const {
    std::int32_t segment = 0;
    while (segment < segments && i >= counts[segment]) { i -= counts[segment++]; }
    if (segment == segments) { return rows; }
    std::int32_t strip = segment * segment_strips;
    for (; wanted[strip] == 0 || i > 0; ++strip) { i -= wanted[strip] != 0 ? 1 : 0; }
    return strip * strip_rows;
  }
  /// Number `i` of them, in any order within a segment.
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

namespace detail {

/// Rows of a range in front of row `first`.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t rows_in_front(row_range range, std::int32_t first) {
  const std::int32_t end = range.end < first ? range.end : first;
  return range.begin < end ? end - range.begin : 0;
}
/// Bit i: row first + i of a strip is in the range, which may be empty. Without branches, so that
/// host loops vectorise.
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t rows_inside(row_range range, std::int32_t first) {
  const auto inside = [first](std::int32_t row) {
    const std::int32_t i = row - first;
    return i < 0 ? 0 : i < strip_rows ? i : strip_rows;
  };
  const std::int32_t begin = inside(range.begin);
  const std::int32_t end = inside(range.end);
  return (1u << (begin < end ? end : begin)) - (1u << begin);
}

}  // namespace detail

/// By a worker, for all of its lanes.
template <class Worker>
HUNCH_HOST_DEVICE strip_share share_of(Worker& worker, const shortlist& list, std::int32_t first) {
  typename Worker::template per_lane<std::int32_t> before;
  typename Worker::template per_lane<std::uint32_t> rows;
  worker.each(
      [&](std::int32_t lane, std::int32_t& in_front, std::uint32_t& held) {
        in_front = 0;
        held = 0;
        for (std::int32_t r = lane; r < list.range_count; r += Worker::lanes) {
          in_front += detail::rows_in_front(list.ranges[r], first);
          held |= detail::rows_inside(list.ranges[r], first);
        }
      },
      before, rows);
  return {worker.sum(before), worker.any(rows)};
}

/// What several lists hold of a strip, found side by side: all loads are under way before the first
/// is needed, those of 128 ranges of each list.
template <int Lists, class Worker>
HUNCH_HOST_DEVICE void shares_of(Worker& worker, const row_range* const (&ranges)[Lists],
                                 const std::int32_t (&counts)[Lists], std::int32_t first,
                                 strip_share (&shares)[Lists]) {
  constexpr std::int32_t steps = 128 / Worker::lanes;
  HUNCH_UNROLLED
  for (int j = 0; j < Lists; ++j) { shares[j] = {}; }
  std::int32_t most = 0;
  for (const std::int32_t count : counts) { most = count > most ? count : most; }
  struct parts {
    std::int32_t before[Lists];
    std::uint32_t rows[Lists];
  };
  typename Worker::template per_lane<parts> found;
  HUNCH_ROLLED
  for (std::int32_t begin = 0; begin < most; begin += steps * Worker::lanes) {
    worker.each(
        [&](std::int32_t lane, parts& to) {
          row_range read[Lists][steps];
          HUNCH_UNROLLED
          for (int j = 0; j < Lists; ++j) {
            HUNCH_UNROLLED
            for (int s = 0; s < steps; ++s) {
              const std::int32_t r = begin + s * Worker::lanes + lane;
              read[j][s] = r < counts[j] ? ranges[j][r] : row_range{0, 0};
            }
          }
          HUNCH_UNROLLED
          for (int j = 0; j < Lists; ++j) {
            to.before[j] = 0;
            to.rows[j] = 0;
            HUNCH_UNROLLED
            for (int s = 0; s < steps; ++s) {
              to.before[j] += detail::rows_in_front(read[j][s], first);
              to.rows[j] |= detail::rows_inside(read[j][s], first);
            }
          }
        },
        found);
    HUNCH_UNROLLED
    for (int j = 0; j < Lists; ++j) {
      typename Worker::template per_lane<std::int32_t> before;
      typename Worker::template per_lane<std::uint32_t> rows;
      worker.each(
          [&](std::int32_t, const parts& from, std::int32_t& in_front, std::uint32_t& held) {
            in_front = from.before[j];
            held = from.rows[j];
          },
          found, before, rows);
      shares[j].before += worker.sum(before);
      shares[j].rows |= worker.any(rows);
    }
  }
}

/// Plans segment `index` for the lists [first, first + planned_lists) of `asked`, whose arrays lie
/// in memory that the team reaches. A list whose row is -1 wants nothing.
struct plan_head {
  head_rows<float> asked;  ///< without its logits
  std::int32_t first;      ///< below asked.size
  std::int32_t rows;       ///< of the head
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
    if constexpr (T::worker_type::lanes == 1) {
      mark(team, index, begin, count);
    } else {
      search(team, index, begin, count);
    }
  }

 private:
  /// Lists that are searched at the same time, so that their loads are under way side by side.
  static constexpr std::int32_t searched_lists = 8;

  /// For each strip, which lists hold some of it.
  template <Team T>
  HUNCH_HOST_DEVICE void search(T& team, std::int32_t index, std::int32_t begin,
                                std::int32_t count) const {
    const std::int32_t all = lists();
    std::uint64_t* const wanted = plan.wanted + begin;
    team.for_each(count, [=, *this](std::int64_t s) {
      const auto row = (begin + static_cast<std::int32_t>(s)) * strip_rows;
      std::uint64_t mask = 0;
      for (std::int32_t i = 0; i < all; i += searched_lists) { mask |= meeting(i, all, row) << i; }
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

  /// The same the other way round, for threads: along the ranges of each list, which is less work,
  /// but nothing that many could share. Threads find strips by `row_of` and need no list of them.
  template <Team T>
  HUNCH_HOST_DEVICE void mark(T& team, std::int32_t index, std::int32_t begin,
                              std::int32_t count) const {
    const std::int32_t parts = team.size();
    team.for_each_worker(parts, [=, *this](auto&, std::int32_t part) {
      mark_strips(begin + count * part / parts, begin + count * (part + 1) / parts);
    });
    const std::uint64_t* const wanted = plan.wanted + begin;
    const std::int32_t found = team.reduce(
        count, std::int32_t(0),
        [=](std::int64_t s) { return static_cast<std::int32_t>(wanted[s] != 0); },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    if (team.rank() == 0) { plan.counts[index] = found; }
  }
  HUNCH_HOST_DEVICE void mark_strips(std::int32_t begin, std::int32_t end) const {
    for (std::int32_t s = begin; s < end; ++s) { plan.wanted[s] = 0; }
    for (std::int32_t i = 0; i < lists(); ++i) {
      if (asked.row[first + i] < 0) { continue; }
      const shortlist& list = asked.lists[first + i];
      for (std::int32_t r = 0; r < list.range_count; ++r) {
        const row_range range = list.ranges[r];
        if (range.begin >= range.end) { continue; }
        const std::int32_t from = range.begin / strip_rows;
        const std::int32_t to = (range.end - 1) / strip_rows + 1;
        for (std::int32_t s = from > begin ? from : begin; s < (to < end ? to : end); ++s) {
          plan.wanted[s] |= std::uint64_t(1) << i;
        }
      }
    }
  }

  /// Bit i: list `begin` + i of `all` holds a row of the strip that begins at `row`.
  HUNCH_HOST_DEVICE std::uint64_t meeting(std::int32_t begin, std::int32_t all,
                                          std::int32_t row) const {
    const row_range* ranges[searched_lists];
    std::int32_t low[searched_lists];   // ranges in front of this one begin before the strip ends
    std::int32_t left[searched_lists];  // that may do so, too
    std::int32_t most = 0;
    HUNCH_UNROLLED
    for (std::int32_t i = 0; i < searched_lists; ++i) {
      const std::int32_t list = first + begin + i;
      const bool there = begin + i < all && asked.row[list] >= 0;
      ranges[i] = there ? asked.lists[list].ranges : nullptr;
      left[i] = there ? asked.lists[list].range_count : 0;
      low[i] = 0;
      most = left[i] > most ? left[i] : most;
    }
    for (; most > 0; most /= 2) {
      std::int32_t begins[searched_lists];
      HUNCH_UNROLLED
      for (std::int32_t i = 0; i < searched_lists; ++i) {
        begins[i] = left[i] > 0 ? ranges[i][low[i] + left[i] / 2].begin : 0;
      }
      HUNCH_UNROLLED
      for (std::int32_t i = 0; i < searched_lists; ++i) {
        if (left[i] == 0) { continue; }
        const std::int32_t half = left[i] / 2;
        const bool before = begins[i] < row + strip_rows;
        low[i] += before ? half + 1 : 0;
        left[i] = before ? left[i] - half - 1 : half;
      }
    }
    std::uint64_t mask = 0;
    HUNCH_UNROLLED
    for (std::int32_t i = 0; i < searched_lists; ++i) {
      const bool meets = low[i] > 0 && ranges[i][low[i] - 1].end > row;
      mask |= static_cast<std::uint64_t>(meets) << i;
    }
    return mask;
  }
};

}  // namespace hunch::kernel

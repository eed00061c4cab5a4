// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/bits.hpp>
#include <hunch/core/config.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// A strip: 16 adjacent rows of a head, the first a multiple of 16. What tensor cores multiply.
inline constexpr std::int32_t strip_rows = 16;

/// Lists that share a plan.
inline constexpr std::int32_t planned_lists = 64;

/// Strips of a segment: as many as a word has bits and a worker lanes.
inline constexpr std::int32_t segment_strips = 32;

HUNCH_HOST_DEVICE constexpr std::int32_t strips_of(std::int32_t rows) {
  return (rows + strip_rows - 1) / strip_rows;
}
HUNCH_HOST_DEVICE constexpr std::int32_t segments_of(std::int32_t rows) {
  return (strips_of(rows) + segment_strips - 1) / segment_strips;
}

/// What a list holds of a strip.
struct alignas(8) strip_share {
  std::int32_t before = 0;  ///< positions of the list in front of the strip
  std::uint32_t rows = 0;   ///< bit i: row i of the strip is in the list

  HUNCH_HOST_DEVICE bool holds(std::int32_t i) const { return (rows >> i & 1u) != 0; }
  /// The position of row i of the strip, which the list holds.
  HUNCH_HOST_DEVICE std::int32_t position(std::int32_t i) const {
    return before + count_of(rows & ((1u << i) - 1u));
  }
};

/// Which strips of a head are wanted by up to 64 lists, and what each list holds of them: so a row
/// that several lists hold is read once. A view.
struct head_plan {
  std::uint32_t* wanted = nullptr;  ///< [segments] bit s: strip s of the segment is wanted
  /// [segments, lists, segment_strips]; not written by threads, as what follows.
  strip_share* shares = nullptr;
  std::uint32_t* by_list = nullptr;  ///< [segments, lists] `wanted` of each list
  std::int32_t segments = 0;         ///< segments_of(rows)
  std::int32_t lists = 0;

  /// Wanted strips. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE std::int32_t size(T& team) const {
    const std::uint32_t* const words = wanted;
    return team.reduce(
        segments, std::int32_t(0), [=](std::int64_t s) { return count_of(words[s]); },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
  /// The row at which number `i` of them begins, counted in the order of rows, out of `rows`; the
  /// end of the head after the last. For a thread: it looks at each segment.
  HUNCH_HOST_DEVICE std::int32_t row_of(std::int32_t i, std::int32_t rows) const {
    for (std::int32_t s = 0; s < segments; ++s) {
      const std::int32_t here = count_of(wanted[s]);
      if (i < here) { return (s * segment_strips + member_of(wanted[s], i)) * strip_rows; }
      i -= here;
    }
    return rows;
  }
  /// Number `i` of them, or -1 where there are no more; for all lanes of a worker.
  template <class Worker>
  HUNCH_HOST_DEVICE std::int32_t strip(Worker& worker, std::int32_t i) const {
    constexpr std::int32_t each = 8;  // words of a lane, all of them under way at once
    HUNCH_ROLLED
    for (std::int32_t first = 0; first < segments; first += each * Worker::lanes) {
      typename Worker::template per_lane<std::int32_t> here;
      typename Worker::template per_lane<std::int32_t> before;
      worker.each(
          [&](std::int32_t lane, std::int32_t& count, std::int32_t& below) {
            count = 0;
            HUNCH_UNROLLED
            for (std::int32_t w = 0; w < each; ++w) {
              count += count_of(word(first + lane * each + w));
            }
            below = count;
          },
          here, before);
      const std::int32_t all = worker.sum(here);
      if (i >= all) {
        i -= all;
        continue;
      }
      worker.before(before);
      typename Worker::template per_lane<std::int32_t> found;
      worker.each(
          [&](std::int32_t lane, const std::int32_t& count, const std::int32_t& below,
              std::int32_t& mine) {
            std::int32_t left = i - below;
            mine = 0;
            if (left < 0 || left >= count) { return; }
            std::int32_t at = first + lane * each;
            HUNCH_ROLLED
            for (std::int32_t in = count_of(word(at)); left >= in; in = count_of(word(at))) {
              left -= in;
              ++at;
            }
            mine = at * segment_strips + member_of(word(at), left);
          },
          here, before, found);
      return worker.sum(found);
    }
    return -1;
  }

  HUNCH_HOST_DEVICE strip_share& share(std::int32_t strip, std::int32_t list) const {
    return shares[(static_cast<std::int64_t>(strip / segment_strips) * lists + list) *
                      segment_strips +
                  strip % segment_strips];
  }
  /// Bit i: some list holds row i of a strip.
  template <class Worker>
  HUNCH_HOST_DEVICE std::uint32_t held(Worker& worker, std::int32_t strip) const {
    typename Worker::template per_lane<std::uint32_t> rows;
    worker.each(
        [&](std::int32_t lane, std::uint32_t& mine) {
          mine = 0;
          HUNCH_UNROLLED
          for (std::int32_t i = 0; i < planned_lists; i += Worker::lanes) {
            if (i + lane < lists) { mine |= share(strip, i + lane).rows; }
          }
        },
        rows);
    return worker.any(rows);
  }

 private:
  HUNCH_HOST_DEVICE std::uint32_t word(std::int32_t segment) const {
    return segment < segments ? wanted[segment] : 0u;
  }
};

namespace detail {

/// Rows of a range in front of row `first`.
HUNCH_HOST_DEVICE HUNCH_INLINE std::int32_t rows_in_front(row_range range, std::int32_t first) {
  const std::int32_t end = range.end < first ? range.end : first;
  return range.begin < end ? end - range.begin : 0;
}
/// Bit i: row first + i of a strip is in the range, which may be empty.
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

/// Plans the head for the lists [first, first + plan.lists) of `asked`, whose arrays lie in memory
/// that the team reaches; team `index` of `teams` its share of the segments. A list whose row is -1
/// wants nothing.
struct plan_head {
  head_rows<float> asked;  ///< without its logits
  std::int32_t first;      ///< below asked.size
  std::int32_t rows;       ///< of the head
  head_plan plan;
  std::int32_t teams;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const auto share = [this](std::int32_t i) {
      const std::int32_t more = plan.segments % teams;
      return plan.segments / teams * i + (i < more ? i : more);
    };
    const std::int32_t begin = share(index);
    const std::int32_t end = share(index + 1);
    if constexpr (T::worker_type::lanes == 1) {
      const std::int32_t parts = team.size();
      team.for_each_worker(parts, [=, *this](auto&, std::int32_t part) {
        mark(begin + (end - begin) * part / parts, begin + (end - begin) * (part + 1) / parts);
      });
    } else {
      team.for_each_worker((end - begin) * plan.lists, [this, begin](auto& worker, std::int32_t i) {
        look(worker, begin + i / plan.lists, i % plan.lists);
      });
      for (std::int32_t s = begin; s < end; ++s) {
        const std::uint32_t* const of = plan.by_list + static_cast<std::int64_t>(s) * plan.lists;
        const std::uint32_t all = team.reduce(
            plan.lists, std::uint32_t(0), [=](std::int64_t i) { return of[i]; },
            [](std::uint32_t a, std::uint32_t b) { return a | b; });
        if (team.rank() == 0) { plan.wanted[s] = all; }
      }
    }
  }

 private:
  /// What a list holds of the strips of a segment, a lane for each of them. The ranges are read
  /// once, side by side; those that meet the segment lie next to each other, and are read again.
  template <class Worker>
  HUNCH_HOST_DEVICE void look(Worker& worker, std::int32_t segment, std::int32_t list) const {
    static_assert(Worker::lanes == segment_strips);
    const std::int32_t begin = segment * segment_strips * strip_rows;
    const std::int32_t end = begin + segment_strips * strip_rows;
    const row_range* const ranges = asked.lists[first + list].ranges;
    const std::int32_t count =
        asked.row[first + list] < 0 ? 0 : asked.lists[first + list].range_count;
    typename Worker::template per_lane<std::int32_t> rows_in_front;
    typename Worker::template per_lane<std::int32_t> ended;
    typename Worker::template per_lane<std::int32_t> begun;
    worker.each(
        [&](std::int32_t lane, std::int32_t& in_front, std::int32_t& behind, std::int32_t& from) {
          in_front = 0;
          behind = 0;
          from = 0;
          constexpr std::int32_t together = 4;
          HUNCH_ROLLED
          for (std::int32_t r = lane; r < count; r += together * Worker::lanes) {
            row_range read[together];
            HUNCH_UNROLLED
            for (std::int32_t i = 0; i < together; ++i) {
              const std::int32_t at = r + i * Worker::lanes;
              read[i] = at < count ? ranges[at] : row_range{end, end};
            }
            HUNCH_UNROLLED
            for (std::int32_t i = 0; i < together; ++i) {
              in_front += detail::rows_in_front(read[i], begin);
              behind += read[i].end <= begin ? 1 : 0;
              from += read[i].begin < end ? 1 : 0;
            }
          }
        },
        rows_in_front, ended, begun);
    const std::int32_t before = worker.sum(rows_in_front);
    const std::int32_t from = worker.sum(ended);
    const std::int32_t to = worker.sum(begun);
    typename Worker::template per_lane<std::uint32_t> held;
    typename Worker::template per_lane<std::int32_t> in_front;
    typename Worker::template per_lane<std::uint32_t> wanted;
    worker.each(
        [&](std::int32_t lane, std::uint32_t& mine, std::int32_t& count_of_mine,
            std::uint32_t& bit) {
          mine = 0;
          for (std::int32_t r = from; r < to; ++r) {
            mine |= detail::rows_inside(ranges[r], begin + lane * strip_rows);
          }
          count_of_mine = count_of(mine);
          bit = mine != 0 ? 1u << lane : 0u;
        },
        held, in_front, wanted);
    worker.before(in_front);
    const std::uint32_t strips = worker.any(wanted);
    worker.each(
        [&](std::int32_t lane, const std::uint32_t& mine, const std::int32_t& below) {
          plan.share(segment * segment_strips + lane, list) = {before + below, mine};
          if (lane == 0) {
            plan.by_list[static_cast<std::int64_t>(segment) * plan.lists + list] = strips;
          }
        },
        held, in_front);
  }

  /// Which strips of the segments [begin, end) are wanted, along the ranges of each list: for
  /// threads, to which it is less work, and who find positions as they sweep along the rows.
  HUNCH_HOST_DEVICE void mark(std::int32_t begin, std::int32_t end) const {
    for (std::int32_t s = begin; s < end; ++s) { plan.wanted[s] = 0; }
    for (std::int32_t i = 0; i < plan.lists; ++i) {
      if (asked.row[first + i] < 0) { continue; }
      const shortlist& list = asked.lists[first + i];
      for (std::int32_t r = 0; r < list.range_count; ++r) {
        const row_range range = list.ranges[r];
        if (range.begin >= range.end) { continue; }
        const std::int32_t from = range.begin / strip_rows;
        const std::int32_t last = (range.end - 1) / strip_rows;
        const std::int32_t until = last / segment_strips;
        std::int32_t s = from / segment_strips;
        for (s = s < begin ? begin : s; s < end && s <= until; ++s) {
          const std::int32_t of = s * segment_strips;
          const std::uint32_t above = from > of ? ~0u << (from - of) : ~0u;
          const std::uint32_t below =
              last - of < segment_strips - 1 ? (1u << (last - of + 1)) - 1u : ~0u;
          plan.wanted[s] |= above & below;
        }
      }
    }
  }
};

}  // namespace hunch::kernel

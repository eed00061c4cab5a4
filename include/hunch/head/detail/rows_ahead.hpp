// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/head/detail/dot_rows.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/team/detail/prefetch.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel::detail {

using team::line;
using team::line_address;
using team::load_soon;

/// Ranges one after the other: those of a list, or one.
class ranges_in_order {
 public:
  HUNCH_HOST_DEVICE ranges_in_order(const row_range* ranges, std::int32_t count)
      : next_(ranges), left_(count) {}

  HUNCH_HOST_DEVICE bool next(row_range& rows) {
    if (left_ == 0) { return false; }
    --left_;
    rows = *next_++;
    return true;
  }

 private:
  const row_range* next_;
  std::int32_t left_;
};
class one_range {
 public:
  HUNCH_HOST_DEVICE explicit one_range(row_range rows) : rows_(rows) {}

  HUNCH_HOST_DEVICE bool next(row_range& rows) {
    rows = rows_;
    rows_.begin = rows_.end;
    return rows.begin < rows.end;
  }

 private:
  row_range rows_;
};

/// Head rows that are prefetched: lines, a little in front, and still further in front one line of
/// each page, so that its address is known by then. Processors foresee neither where the next range
/// begins nor addresses in another page. On a device it does nothing, and lines of a head in memory
/// are left to those processors that are better at it themselves.
///
/// \tparam Ranges Has next(row_range&), which is false after the last range.
/// \tparam Near   The head lies in a cache: rows are read side by side, with less arithmetic; from
///                memory they are read in its order.
template <class Weight, class Ranges, bool Near>
class rows_ahead {
 public:
  /// Rows to be read side by side. Found by measurement.
  static constexpr std::int32_t together = Near && sizeof(Weight) < 4 ? 4 : 1;

  HUNCH_HOST_DEVICE HUNCH_INLINE rows_ahead(const head_weights<Weight>& head, const Ranges& ranges)
      : lines_(head, ranges),
        pages_(head, ranges),
        asks_for_lines_(Near || !team::streams_unasked()) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
    for (int i = 0; i < pages_in_front; ++i) { ask_for_page(); }
    // Rows side by side are prefetched before the first of them is at its end.
    const std::uintptr_t block =
        sizeof(Weight) * static_cast<std::uintptr_t>(head.width) * (together - 1);
    line_place first = place();
    for (std::uintptr_t b = 0; b < in_front + block; b += line) {
      load_soon(take<1>(first, head.data));
    }
    give_back(first);
#endif
  }

  /// A place among the lines that is kept in registers while rows are read: begin with `place()`,
  /// and give it back.
  struct line_place {
    std::uintptr_t at;
    std::uintptr_t turn;  ///< where the lines leave their page or range
  };
  HUNCH_HOST_DEVICE HUNCH_INLINE line_place place() const { return {lines_.at, turn_}; }
  HUNCH_HOST_DEVICE HUNCH_INLINE void give_back(line_place place) { lines_.at = place.at; }

  /// Where the next `Lines` lie; at `here`, which is about to be read, if there are none or nobody
  /// is to ask for them.
  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE std::uintptr_t take(line_place& place, const void* here) {
    if (place.at >= place.turn) {
      place = turn(place);
      if (place.at >= place.turn) { return reinterpret_cast<std::uintptr_t>(here); }
    }
    const std::uintptr_t at = place.at;
    place.at += Lines * line;
    return asks_for_lines_ ? at : reinterpret_cast<std::uintptr_t>(here);
  }

 private:
  // Found by measurement.
  static constexpr std::uintptr_t in_front = 8192;
  static constexpr int pages_in_front = 32;

  static constexpr std::uintptr_t line = 64;
  static constexpr std::uintptr_t page = 4096;

  static HUNCH_HOST_DEVICE std::uintptr_t next_page(std::uintptr_t at) {
    return (at + page) & ~(page - 1);
  }

  /// A place in the ranges, and where the one ends that it is in.
  struct cursor {
    HUNCH_HOST_DEVICE cursor(const head_weights<Weight>& of, const Ranges& in)
        : head(of), ranges(in) {}

    /// To the next range, if this one is at its end; false after the last.
    HUNCH_HOST_DEVICE bool move_on() {
      if (at < end) { return true; }
      row_range rows;
      do {
        if (!ranges.next(rows)) { return false; }
      } while (rows.begin >= rows.end);
      at = reinterpret_cast<std::uintptr_t>(head.row(rows.begin));
      end = reinterpret_cast<std::uintptr_t>(head.row(rows.end));
      return true;
    }

    head_weights<Weight> head;
    Ranges ranges;
    std::uintptr_t at = 0;
    std::uintptr_t end = 0;
  };

  HUNCH_HOST_DEVICE void ask_for_page() {
    if (!pages_.move_on()) { return; }
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
    load_soon(pages_.at);
#endif
    pages_.at = next_page(pages_.at);
  }

  /// At the end of a page or of a range; the same place after the last.
  HUNCH_HOST_DEVICE line_place turn(line_place place) {
    lines_.at = place.at;
    if (lines_.move_on()) {
      ask_for_page();
      const std::uintptr_t next = next_page(lines_.at);
      turn_ = next < lines_.end ? next : lines_.end;
    }
    return this->place();
  }

  cursor lines_;
  cursor pages_;
  bool asks_for_lines_;
  std::uintptr_t turn_ = 0;
};

/// Whether a head is one that a last-level cache holds.
template <class Weight>
HUNCH_HOST_DEVICE bool is_near(const head_weights<Weight>& head) {
  constexpr std::int64_t cache = std::int64_t{32} << 20;
  return std::int64_t{head.rows} * head.width * static_cast<std::int64_t>(sizeof(Weight)) <= cache;
}

/// use(ahead) with what prefetches the rows of `ranges`. By a thread.
template <class Weight, class Ranges, class Use>
HUNCH_HOST_DEVICE HUNCH_INLINE void ask_ahead(const head_weights<Weight>& head,
                                              const Ranges& ranges, const Use& use) {
  if (is_near(head)) {
    rows_ahead<Weight, Ranges, true> ahead(head, ranges);
    use(ahead);
  } else {
    rows_ahead<Weight, Ranges, false> ahead(head, ranges);
    use(ahead);
  }
}

/// For rows that have just been read.
struct no_rows_ahead {
  /// As many as read the hidden state once for all.
  static constexpr std::int32_t together = gemv_rows;

  struct line_place {};
  HUNCH_HOST_DEVICE HUNCH_INLINE static line_place place() { return {}; }
  HUNCH_HOST_DEVICE HUNCH_INLINE static void give_back(line_place) {}
  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::uintptr_t take(line_place, const void* here) {
    return reinterpret_cast<std::uintptr_t>(here);
  }
};

}  // namespace hunch::kernel::detail

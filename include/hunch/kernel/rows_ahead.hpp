// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/config.hpp>
#include <hunch/kernel/dot_rows.hpp>
#include <hunch/kernel/head_weights.hpp>
#include <hunch/vocab_layout.hpp>

namespace hunch::kernel::detail {

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

/// Head rows that are asked for before a thread reads them, in the order in which they lie in
/// memory: lines, as far in front as the rows that are read side by side and a little, and still
/// further in front one line of each page, so that its address is known by then. Processors foresee
/// neither rows that are read side by side, nor where the next range begins, nor addresses in
/// another page. On a device it does nothing.
///
/// \tparam Ranges Has next(row_range&), which is false behind the last range.
template <class Weight, class Ranges>
class rows_ahead {
 public:
  /// Rows to be read side by side. A line of 64 bytes is 4 / sizeof(Weight) sums that wait for each
  /// other, and bytes take work of their own that all rows share; more rows than hide that are more
  /// streams from memory than processors keep up with. Found by measurement.
  static constexpr std::int32_t together = sizeof(Weight) == 4 ? 1 : sizeof(Weight) == 2 ? 4 : 8;

  HUNCH_HOST_DEVICE HUNCH_INLINE rows_ahead(const head_weights<Weight>& head, const Ranges& ranges)
      : lines_(head, ranges), pages_(head, ranges) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
    for (int i = 0; i < pages_in_front; ++i) { ask_for_page(); }
    const std::uintptr_t block =
        sizeof(Weight) * static_cast<std::uintptr_t>(head.width) * together;
    for (std::uintptr_t b = 0; b < block + 512 || b < least_in_front; b += line) {
      load_soon(take<1>(head.data));
    }
#endif
  }

  /// Where the next `Lines` lie; at `here`, which is about to be read, if there are none.
  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE std::uintptr_t take(const void* here) {
    if (lines_.at >= turn_ && !turn()) { return reinterpret_cast<std::uintptr_t>(here); }
    const std::uintptr_t at = lines_.at;
    lines_.at += Lines * line;
    return at;
  }

 private:
  // Found by measurement.
  static constexpr std::uintptr_t least_in_front = 6144;
  static constexpr int pages_in_front = 16;

  static constexpr std::uintptr_t line = 64;
  static constexpr std::uintptr_t page = 4096;

  static HUNCH_HOST_DEVICE std::uintptr_t page_behind(std::uintptr_t at) {
    return (at + page) & ~(page - 1);
  }

  /// A place in the ranges, and where the one ends that it is in.
  struct cursor {
    HUNCH_HOST_DEVICE cursor(const head_weights<Weight>& of, const Ranges& in)
        : head(of), ranges(in) {}

    /// To the next range, if this one is at its end; false behind the last.
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
    pages_.at = page_behind(pages_.at);
  }

  /// At the end of a page or of a range.
  HUNCH_HOST_DEVICE bool turn() {
    if (!lines_.move_on()) { return false; }
    ask_for_page();
    const std::uintptr_t behind = page_behind(lines_.at);
    turn_ = behind < lines_.end ? behind : lines_.end;
    return true;
  }

  cursor lines_;
  cursor pages_;
  std::uintptr_t turn_ = 0;  ///< where the lines leave their page or range
};

/// For rows that have just been read.
struct no_rows_ahead {
  /// As many as hide the latency of their sums and read the hidden state once for all.
  static constexpr std::int32_t together = gemv_rows;

  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::uintptr_t take(const void* here) {
    return reinterpret_cast<std::uintptr_t>(here);
  }
};

}  // namespace hunch::kernel::detail

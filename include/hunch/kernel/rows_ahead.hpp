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
/// memory, as far in front as eight rows and a little. Processors foresee neither rows that are
/// read side by side nor where the next range begins. On a device it does nothing. \tparam Ranges
/// has next(row_range&), which is false behind the last range.
template <class Weight, class Ranges>
class rows_ahead {
 public:
  HUNCH_HOST_DEVICE HUNCH_INLINE rows_ahead(const head_weights<Weight>& head, const Ranges& ranges)
      : head_(head), ranges_(ranges) {
#if defined(__GNUC__) && !defined(__CUDA_ARCH__)
    const std::uintptr_t row = sizeof(Weight) * static_cast<std::uintptr_t>(head.width);
    for (std::uintptr_t b = 0; b < gemv_rows * row + 2048; b += line) {
      load_soon(take<1>(head.data));
    }
#endif
  }

  /// Where the next `Lines` lie; at `here`, which is about to be read, if there are none.
  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE std::uintptr_t take(const void* here) {
    if (at_ >= end_ && !move_on()) { return reinterpret_cast<std::uintptr_t>(here); }
    const std::uintptr_t at = at_;
    at_ += Lines * line;
    return at;
  }

 private:
  static constexpr std::uintptr_t line = 64;

  HUNCH_HOST_DEVICE bool move_on() {
    row_range rows;
    do {
      if (!ranges_.next(rows)) { return false; }
    } while (rows.begin >= rows.end);
    at_ = reinterpret_cast<std::uintptr_t>(head_.row(rows.begin));
    end_ = reinterpret_cast<std::uintptr_t>(head_.row(rows.end));
    return true;
  }

  head_weights<Weight> head_;
  Ranges ranges_;
  std::uintptr_t at_ = 0;  ///< what is asked for next, of a range that ends at `end_`
  std::uintptr_t end_ = 0;
};

/// For rows that have just been read.
struct no_rows_ahead {
  template <std::uintptr_t Lines>
  HUNCH_HOST_DEVICE HUNCH_INLINE static std::uintptr_t take(const void* here) {
    return reinterpret_cast<std::uintptr_t>(here);
  }
};

}  // namespace hunch::kernel::detail

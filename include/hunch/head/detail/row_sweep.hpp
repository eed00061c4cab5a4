// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/head/head_plan.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel::detail {

/// The head rows that any of up to 64 lists hold, in order, in ranges of which every row is held by
/// the same lists: what a thread needs to read a row once for all of them.
class row_sweep {
 public:
  /// Of the lists [first, first + planned_lists) of `asked`, the rows [begin, end).
  template <class Logit>
  HUNCH_HOST_DEVICE row_sweep(const head_rows<Logit>& asked, std::int32_t first, std::int32_t begin,
                              std::int32_t end)
      : begin_(begin), at_(begin), end_(end) {
    const std::int32_t left = asked.size - first;
    for (std::int32_t i = 0; i < left && i < planned_lists; ++i) {
      if (asked.row[first + i] < 0 || asked.lists[first + i].range_count == 0) { continue; }
      const shortlist& list = asked.lists[first + i];
      lists_[count_++] = {
          .number = i, .before = 0, .range = list.ranges, .end = list.ranges + list.range_count};
    }
  }

  /// The next such range; false if there is none.
  HUNCH_HOST_DEVICE bool next(row_range& rows) {
    std::int32_t begin = end_;
    for (std::int32_t i = 0; i < count_; ++i) {
      list_state& list = lists_[i];
      while (list.range != list.end && list.range->end <= at_) {
        list.before += list.range->end - list.range->begin;
        ++list.range;
      }
      if (list.range == list.end) { continue; }
      const std::int32_t from = list.range->begin < at_ ? at_ : list.range->begin;
      begin = from < begin ? from : begin;
    }
    if (begin >= end_) { return false; }
    std::int32_t end = end_;
    holders_ = 0;
    for (std::int32_t i = 0; i < count_; ++i) {
      const list_state& list = lists_[i];
      if (list.range == list.end) { continue; }
      const bool holds = list.range->begin <= begin;
      const std::int32_t to = holds ? list.range->end : list.range->begin;
      end = to < end ? to : end;
      if (holds) { holding_[holders_++] = i; }
    }
    rows = {begin, end};
    begin_ = begin;
    at_ = end;
    return true;
  }

  /// The lists that hold the range: f(list, position of its first row), `list` counted from
  /// `first`.
  template <class F>
  HUNCH_HOST_DEVICE void for_holders(F&& f) const {
    for (std::int32_t i = 0; i < holders_; ++i) {
      const list_state& list = lists_[holding_[i]];
      f(list.number, list.before + begin_ - list.range->begin);
    }
  }

 private:
  struct list_state {
    std::int32_t number;
    std::int32_t before;  ///< positions in front of `range`
    const row_range* range;
    const row_range* end;
  };

  list_state lists_[planned_lists];
  std::int32_t holding_[planned_lists];
  std::int32_t count_ = 0;
  std::int32_t holders_ = 0;
  std::int32_t begin_;
  std::int32_t at_;
  std::int32_t end_;
};

}  // namespace hunch::kernel::detail

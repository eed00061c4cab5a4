// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>

/// \file
/// Shortlists: unions of few ranges of the rows of a draft head.

namespace hunch {

/// Rows [begin, end) of a draft head.
struct row_range {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  friend constexpr bool operator==(const row_range&, const row_range&) = default;
};

/// A shortlist: ascending, disjoint row ranges of a head and the tables of its layout. A view,
/// trivially copyable. "Position" counts the shortlist's rows from 0 to size - 1 in range order.
///
/// Where a layout has clusters and a shortlist is made of whole ones, it may come with a shift for
/// each part of the layout, from row to position: tokens are then found without a search.
struct shortlist {
  /// The shift of a part that is not in the list: no row gets to a position.
  static constexpr std::int32_t absent = -(1 << 30);

  const row_range* ranges = nullptr;
  std::int32_t range_count = 0;
  std::int32_t size = 0;                    ///< rows in all ranges
  const token* row_token = nullptr;         ///< [head rows]; nullptr: row r is token r
  const std::int32_t* token_row = nullptr;  ///< [vocab_size], -1 where absent; nullptr: identity
  std::int32_t vocab_size = 0;
  const std::int32_t* token_part = nullptr;  ///< [vocab_size] see `vocab_layout::token_part`
  const std::int32_t* shift = nullptr;       ///< [parts]; nullptr: not known

  /// Whether position i is token i for the whole vocabulary of `tokens` tokens.
  HUNCH_HOST_DEVICE constexpr bool is_everything(std::int32_t tokens) const {
    return token_row == nullptr && range_count == 1 && size == tokens;
  }

  /// The position of head row `row`, or -1.
  HUNCH_HOST_DEVICE constexpr std::int32_t position_of_row(std::int32_t row) const {
    std::int32_t before = 0;
    HUNCH_ROLLED
    for (std::int32_t r = 0; r < range_count && ranges[r].begin <= row; ++r) {
      const row_range range = ranges[r];
      if (row < range.end) { return before + (row - range.begin); }
      before += range.end - range.begin;
    }
    return -1;
  }

  /// The position of token `t` of the vocabulary, or -1 if the shortlist does not hold it.
  HUNCH_HOST_DEVICE constexpr std::int32_t position_of(token t) const {
    const std::int32_t row = token_row == nullptr ? t : token_row[t];
    if (shift == nullptr) { return position_of_row(row); }
    const std::int32_t at = row + shift[token_part[t]];
    return at >= 0 ? at : -1;
  }

  /// The token at `position`, which must be in [0, size).
  HUNCH_HOST_DEVICE constexpr token token_at(std::int32_t position) const {
    std::int32_t row = position;
    HUNCH_ROLLED
    for (std::int32_t r = 0; r < range_count; ++r) {
      const row_range range = ranges[r];
      const std::int32_t length = range.end - range.begin;
      if (position < length) {
        row = range.begin + position;
        break;
      }
      position -= length;
    }
    return row_token == nullptr ? row : row_token[row];
  }

  /// Calls use(position, token) for the positions [first, last), in order, with one walk along the
  /// ranges.
  template <class Use>
  HUNCH_HOST_DEVICE constexpr void for_each_in(std::int32_t first, std::int32_t last,
                                               Use&& use) const {
    std::int32_t before = 0;
    HUNCH_ROLLED
    for (std::int32_t r = 0; r < range_count && before < last; ++r) {
      const row_range range = ranges[r];
      const std::int32_t end = before + (range.end - range.begin);
      HUNCH_ROLLED
      for (std::int32_t i = first > before ? first : before; i < end && i < last; ++i) {
        const std::int32_t row = range.begin + (i - before);
        use(i, row_token == nullptr ? row : row_token[row]);
      }
      before = end;
    }
  }
};

}  // namespace hunch

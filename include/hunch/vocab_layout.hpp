// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hunch/config.hpp>
#include <hunch/types.hpp>

/// \file
/// The order of the rows of a draft head, and shortlists: unions of few ranges of these rows.
///
/// A draft head is stored permuted so that whatever a selector may choose is contiguous: a prefix
/// (FR-Spec, VocabTrim), a cluster (DynaSpec), all of it. A shortlist is then a handful of row
/// ranges, and one kernel serves every selector with contiguous reads.

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

  /// The position of token `t`, or -1 if the shortlist does not hold it.
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

/// The owner of the tables: which token each row of a draft head stands for, and which rows are
/// clusters, if there are any.
///
/// Invariant, checked at construction: tokens are in [0, vocab_size) and no token has two rows.
/// A head may have fewer rows than the vocabulary has tokens (a trimmed or mapped head); tokens
/// without a row are never drafted, and are still sampled exactly through the verifier. Clusters
/// are not empty and follow each other to the last row; rows in front of the first are the core,
/// which is always chosen.
class vocab_layout {
 public:
  /// Row r is token r.
  static vocab_layout identity(std::int32_t vocab_size) {
    if (vocab_size <= 0) {
      throw std::invalid_argument("hunch::vocab_layout: the vocabulary must not be empty");
    }
    vocab_layout out;
    out.vocab_size_ = out.head_rows_ = vocab_size;
    return out;
  }

  /// Row r is `row_token[r]`; head rows = row_token.size() <= vocab_size.
  /// \throws std::invalid_argument naming the first row that is out of range or repeated.
  static vocab_layout permuted(std::vector<token> row_token, std::int32_t vocab_size) {
    if (row_token.empty() || vocab_size <= 0) {
      throw std::invalid_argument("hunch::vocab_layout: the vocabulary must not be empty");
    }
    vocab_layout out;
    out.vocab_size_ = vocab_size;
    out.head_rows_ = static_cast<std::int32_t>(row_token.size());
    out.token_row_.assign(static_cast<std::size_t>(vocab_size), -1);
    for (std::int32_t row = 0; row < out.head_rows_; ++row) {
      const token t = row_token[static_cast<std::size_t>(row)];
      if (t < 0 || t >= vocab_size) {
        throw std::invalid_argument("hunch::vocab_layout: row " + std::to_string(row) +
                                    " stands for token " + std::to_string(t) +
                                    ", outside the vocabulary of " + std::to_string(vocab_size));
      }
      if (out.token_row_[static_cast<std::size_t>(t)] != -1) {
        throw std::invalid_argument("hunch::vocab_layout: token " + std::to_string(t) +
                                    " has two rows, " +
                                    std::to_string(out.token_row_[static_cast<std::size_t>(t)]) +
                                    " and " + std::to_string(row));
      }
      out.token_row_[static_cast<std::size_t>(t)] = row;
    }
    out.row_token_ = std::move(row_token);
    return out;
  }

  /// This order with clusters: cluster c is the rows [begin[c], begin[c + 1]).
  /// \throws std::invalid_argument unless `begin` ascends, from 0 or more to head_rows.
  vocab_layout clustered(std::vector<std::int32_t> begin) const {
    bool ascends = begin.size() >= 2 && begin.front() >= 0 && begin.back() == head_rows_;
    for (std::size_t c = 1; c < begin.size(); ++c) { ascends = ascends && begin[c - 1] < begin[c]; }
    if (!ascends) {
      throw std::invalid_argument(
          "hunch::vocab_layout: clusters must not be empty and must end with the last row");
    }
    vocab_layout out = *this;
    out.cluster_begin_ = std::move(begin);
    out.token_part_.resize(static_cast<std::size_t>(vocab_size_));
    for (token t = 0; t < vocab_size_; ++t) {
      const std::int32_t row = token_row() == nullptr ? t : token_row()[t];
      out.token_part_[static_cast<std::size_t>(t)] =
          row < 0 ? out.clusters() + 1 : out.cluster_of(row) + 1;
    }
    return out;
  }

  std::int32_t vocab_size() const { return vocab_size_; }
  std::int32_t head_rows() const { return head_rows_; }

  /// 0 if the layout has no clusters.
  std::int32_t clusters() const {
    return cluster_begin_.empty() ? 0 : static_cast<std::int32_t>(cluster_begin_.size()) - 1;
  }
  /// [clusters + 1] where each begins and the last one ends; nullptr without clusters.
  const std::int32_t* cluster_begin() const {
    return cluster_begin_.empty() ? nullptr : cluster_begin_.data();
  }
  /// Rows that are always chosen: [0, core_rows).
  std::int32_t core_rows() const { return cluster_begin_.empty() ? 0 : cluster_begin_.front(); }
  /// The cluster of a row, or -1 for a row of the core.
  std::int32_t cluster_of(std::int32_t row) const {
    return static_cast<std::int32_t>(
               std::upper_bound(cluster_begin_.begin(), cluster_begin_.end(), row) -
               cluster_begin_.begin()) -
           1;
  }

  /// The core, the clusters and the tokens without a row; 0 if the layout has no clusters.
  std::int32_t parts() const { return clusters() == 0 ? 0 : clusters() + 2; }
  /// [vocab_size] the part of each token: 0 for the core, c + 1 for cluster c, clusters + 1 if it
  /// has no row; nullptr without clusters.
  const std::int32_t* token_part() const {
    return token_part_.empty() ? nullptr : token_part_.data();
  }

  /// [head_rows] the token of each row; nullptr for the identity.
  const token* row_token() const { return row_token_.empty() ? nullptr : row_token_.data(); }
  /// [vocab_size] the row of each token or -1; nullptr for the identity.
  const std::int32_t* token_row() const { return token_row_.empty() ? nullptr : token_row_.data(); }

  /// A value that tells layouts apart: FNV-1a over sizes and row order. A draft model reports the
  /// fingerprint of the order in which its head is stored, and the decoder compares.
  std::uint64_t fingerprint() const {
    std::uint64_t hash = 14695981039346656037ull;
    const auto mix = [&hash](std::int32_t value) {
      hash = (hash ^ static_cast<std::uint32_t>(value)) * 1099511628211ull;
    };
    mix(vocab_size_);
    mix(head_rows_);
    for (const token t : row_token_) { mix(t); }
    return hash;
  }

  /// The shortlist made of `count` ranges, which must outlive it, as must this layout.
  /// \param shifts [parts()] room for its shifts, which must outlive it; nullptr: without them.
  shortlist list(const row_range* ranges, std::int32_t count,
                 std::int32_t* shifts = nullptr) const {
    std::int32_t size = 0;
    for (std::int32_t r = 0; r < count; ++r) { size += ranges[r].end - ranges[r].begin; }
    const bool shifted = shifts != nullptr && write_shifts(ranges, count, shifts);
    return {ranges,      count,        size,         row_token(),
            token_row(), vocab_size(), token_part(), shifted ? shifts : nullptr};
  }

 private:
  vocab_layout() = default;

  /// Whether the list is made of whole parts, and so has shifts.
  bool write_shifts(const row_range* ranges, std::int32_t count, std::int32_t* shifts) const {
    if (clusters() == 0) { return false; }
    std::int32_t before = 0;  // rows in the ranges that are passed
    std::int32_t r = 0;
    for (std::int32_t part = 0; part <= clusters(); ++part) {
      const auto at = static_cast<std::size_t>(part);
      const std::int32_t begin = part == 0 ? 0 : cluster_begin_[at - 1];
      const std::int32_t end = cluster_begin_[at];
      while (r < count && ranges[r].end <= begin) {
        before += ranges[r].end - ranges[r].begin;
        ++r;
      }
      shifts[part] = shortlist::absent;
      if (r == count || ranges[r].begin >= end) { continue; }
      if (ranges[r].begin > begin || ranges[r].end < end) { return false; }
      shifts[part] = before - ranges[r].begin;
    }
    shifts[clusters() + 1] = shortlist::absent;
    return true;
  }

  std::int32_t vocab_size_ = 0;
  std::int32_t head_rows_ = 0;
  std::vector<token> row_token_;
  std::vector<std::int32_t> token_row_;
  std::vector<std::int32_t> cluster_begin_;
  std::vector<std::int32_t> token_part_;
};

}  // namespace hunch

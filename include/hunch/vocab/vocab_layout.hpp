// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/vocab/detail/write_shifts.hpp>
#include <hunch/vocab/shortlist.hpp>

/// \file
/// The order of the rows of a draft head.
///
/// A draft head is stored permuted so that whatever a selector may choose is contiguous: a prefix
/// (FR-Spec, VocabTrim), a cluster (DynaSpec), all of it. A shortlist is then a handful of row
/// ranges, and one kernel serves every selector with contiguous reads.

namespace hunch {

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
  /// Row r is token r. \throws std::invalid_argument for an empty vocabulary.
  static vocab_layout identity(std::int32_t vocab_size) {
    if (vocab_size <= 0) {
      throw std::invalid_argument("hunch::vocab_layout: the vocabulary must not be empty");
    }
    vocab_layout out;
    out.vocab_size_ = out.head_rows_ = vocab_size;
    return out;
  }

  /// Row r is `row_token[r]`; head rows = row_token.size() <= vocab_size.
  /// \throws std::invalid_argument naming the first row that is out of range or repeated; or for no
  ///         rows.
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
        throw std::invalid_argument(message({"hunch::vocab_layout: row ", row, " stands for token ",
                                             t, ", outside the vocabulary of ", vocab_size}));
      }
      if (out.token_row_[static_cast<std::size_t>(t)] != -1) {
        throw std::invalid_argument(
            message({"hunch::vocab_layout: token ", t, " has two rows, ",
                     out.token_row_[static_cast<std::size_t>(t)], " and ", row}));
      }
      out.token_row_[static_cast<std::size_t>(t)] = row;
    }
    out.row_token_ = std::move(row_token);
    return out;
  }

  /// This order with clusters: cluster c is the rows [begin[c], begin[c + 1]).
  /// \param begin [clusters + 1]
  /// \throws std::invalid_argument unless `begin` ascends strictly, from 0 or more to head_rows.
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

  /// A value that tells orders of rows apart: FNV-1a over sizes and rows. A draft model reports
  /// that of the order in which its head is stored, and the decoder compares.
  std::uint64_t order() const {
    std::uint64_t hash = mixed(14695981039346656037ull, vocab_size_);
    hash = mixed(hash, head_rows_);
    for (std::int32_t r = 0; r < head_rows_; ++r) {
      hash = mixed(hash, row_token_.empty() ? r : row_token_[static_cast<std::size_t>(r)]);
    }
    return hash;
  }

  /// A value that tells layouts apart: the order and the clusters. A router is for one of them.
  std::uint64_t fingerprint() const {
    std::uint64_t hash = mixed(order(), clusters());
    for (const std::int32_t row : cluster_begin_) { hash = mixed(hash, row); }
    return hash;
  }

  /// The shortlist made of `count` ranges, which must outlive it, as must this layout: ascending,
  /// disjoint, in [0, head_rows). Allocates nothing.
  /// \param shifts [parts()] room for its shifts, which must outlive it; nullptr: without them.
  shortlist list(const row_range* ranges, std::int32_t count,
                 std::int32_t* shifts = nullptr) const {
    std::int32_t size = 0;
    for (std::int32_t r = 0; r < count; ++r) { size += ranges[r].end - ranges[r].begin; }
    const bool shifted = shifts != nullptr && is_whole_parts(ranges, count);
    if (shifted) {
      team::serial team;
      kernel::write_shifts(team, {cluster_begin(), clusters()}, ranges, count, shifts);
    }
    return {.ranges = ranges,
            .range_count = count,
            .size = size,
            .row_token = row_token(),
            .token_row = token_row(),
            .vocab_size = vocab_size(),
            .token_part = token_part(),
            .shift = shifted ? shifts : nullptr};
  }

 private:
  vocab_layout() = default;

  static std::uint64_t mixed(std::uint64_t hash, std::int32_t value) {
    return (hash ^ static_cast<std::uint32_t>(value)) * 1099511628211ull;
  }

  /// Whether a list is made of whole parts, and so has shifts.
  bool is_whole_parts(const row_range* ranges, std::int32_t count) const {
    const auto is_bound = [this](std::int32_t row) {
      return row == 0 || std::ranges::binary_search(cluster_begin_, row);
    };
    return clusters() > 0 && std::all_of(ranges, ranges + count, [&](const row_range& r) {
             return is_bound(r.begin) && is_bound(r.end);
           });
  }

  std::int32_t vocab_size_ = 0;
  std::int32_t head_rows_ = 0;
  std::vector<token> row_token_;
  std::vector<std::int32_t> token_row_;
  std::vector<std::int32_t> cluster_begin_;
  std::vector<std::int32_t> token_part_;
};

}  // namespace hunch

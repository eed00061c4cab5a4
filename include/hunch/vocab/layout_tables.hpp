// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/detail/write_shifts.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// A `vocab_layout` as bodies see it: a trivially copyable view.
struct layout_view {
  std::int32_t vocab_size = 0;
  std::int32_t clusters = 0;
  const std::int32_t* cluster_begin = nullptr;  ///< [clusters + 1]
  const std::int32_t* token_part = nullptr;     ///< [vocab_size]; nullptr without clusters
  const token* row_token = nullptr;             ///< [head_rows]; nullptr for the identity
  const std::int32_t* token_row = nullptr;      ///< [vocab_size]; nullptr for the identity

  /// What `vocab_layout::list` returns, on all ranks. Collective.
  /// \param ranges that all ranks know.
  template <Team T>
  HUNCH_HOST_DEVICE shortlist list(T& team, const row_range* ranges, std::int32_t count,
                                   std::int32_t* shifts) const {
    const std::int32_t size = team.reduce(
        count, std::int32_t(0), [=](std::int64_t r) { return ranges[r].end - ranges[r].begin; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    bool shifted = shifts != nullptr && clusters > 0;
    if (shifted) {
      const layout_view self = *this;
      shifted = team.reduce(
                    count, std::int32_t(1),
                    [=](std::int64_t r) {
                      return self.is_bound(ranges[r].begin) && self.is_bound(ranges[r].end) ? 1 : 0;
                    },
                    [](std::int32_t a, std::int32_t b) { return a < b ? a : b; }) != 0;
    }
    if (shifted) { kernel::write_shifts(team, {cluster_begin, clusters}, ranges, count, shifts); }
    return of(ranges, count, size, shifted ? shifts : nullptr);
  }

  /// The same of a single range, or none. By one rank.
  HUNCH_HOST_DEVICE shortlist list_of_range(const row_range* range, std::int32_t count) const {
    return of(range, count, count > 0 ? range->end - range->begin : 0, nullptr);
  }

 private:
  HUNCH_HOST_DEVICE shortlist of(const row_range* ranges, std::int32_t count, std::int32_t size,
                                 const std::int32_t* shift) const {
    return {.ranges = ranges,
            .range_count = count,
            .size = size,
            .row_token = row_token,
            .token_row = token_row,
            .vocab_size = vocab_size,
            .token_part = token_part,
            .shift = shift};
  }

  /// Whether a part begins or ends at a row: the row before it is of another part. To search the
  /// bounds for it takes as many branches as nobody can foresee.
  HUNCH_HOST_DEVICE bool is_bound(std::int32_t row) const {
    const std::int32_t end = cluster_begin[clusters];
    return row == 0 || row == end || (row < end && part_of(row) != part_of(row - 1));
  }
  HUNCH_HOST_DEVICE std::int32_t part_of(std::int32_t row) const {
    return token_part[row_token == nullptr ? row : row_token[row]];
  }
};

/// The tables of a `vocab_layout` in memory of an executor.
template <class Executor>
class layout_tables {
 public:
  layout_tables(Executor& executor, const vocab_layout& of)
      : vocab_size_(of.vocab_size()),
        clusters_(of.clusters()),
        begin_(executor, size(of.cluster_begin(), of.clusters() + 1)),
        part_(executor, size(of.token_part(), of.vocab_size())),
        token_(executor, size(of.row_token(), of.head_rows())),
        row_(executor, size(of.token_row(), of.vocab_size())) {
    write_buffer(executor, begin_.data(), of.cluster_begin(), begin_.size());
    write_buffer(executor, part_.data(), of.token_part(), part_.size());
    write_buffer(executor, token_.data(), of.row_token(), token_.size());
    write_buffer(executor, row_.data(), of.token_row(), row_.size());
  }

  layout_view view() const {
    return {.vocab_size = vocab_size_,
            .clusters = clusters_,
            .cluster_begin = table(begin_),
            .token_part = table(part_),
            .row_token = table(token_),
            .token_row = table(row_)};
  }

 private:
  using buffer = typename Executor::template buffer<std::int32_t>;

  static std::size_t size(const std::int32_t* of, std::int32_t n) {
    return of == nullptr ? 0 : static_cast<std::size_t>(n);
  }
  static const std::int32_t* table(const buffer& of) { return of.size() > 0 ? of.data() : nullptr; }

  std::int32_t vocab_size_;
  std::int32_t clusters_;
  buffer begin_;
  buffer part_;
  buffer token_;
  buffer row_;
};

}  // namespace hunch

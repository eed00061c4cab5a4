// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <hunch/selector/selector.hpp>
#include "hash.hpp"

namespace hunch::test {

/// A selector whose shortlists are several ranges that depend on the depth and on the token of the
/// node, as those of a clustered selector do.
class toy_selector {
 public:
  explicit toy_selector(vocab_layout layout) : layout_(std::move(layout)) {}

  const vocab_layout& layout() const { return layout_; }
  std::int32_t max_ranges() const { return (layout_.head_rows() + 1) / 2; }

  std::int32_t max_rows() const { return layout_.head_rows(); }

  void select(const selector_contexts& contexts, const selector_lists& lists) const {
    for (std::int32_t i = 0; i < contexts.size; ++i) {
      const std::uint64_t h =
          mix(static_cast<std::uint64_t>(contexts.tokens[i] * 64 + contexts.depth));
      const auto sure =
          static_cast<std::int32_t>(mix(h) % static_cast<std::uint64_t>(layout_.head_rows()));
      std::int32_t count = 0;
      for (std::int32_t row = 0; row < layout_.head_rows(); ++row) {
        if (row != sure && (h >> row) % 2 == 0) { continue; }
        row_range* last = lists.ranges[i] + count - 1;
        if (count > 0 && last->end == row) {
          ++last->end;
        } else {
          lists.ranges[i][count++] = {row, row + 1};
        }
      }
      lists.counts[i] = count;
    }
  }

 private:
  vocab_layout layout_;
};

static_assert(VocabSelector<toy_selector>);

}  // namespace hunch::test

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

  template <class E>
  using memory = selector::no_memory<E>;
  template <class E>
  void select(memory<E>&, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    executor.launch(contexts.size,
                    selector::choose_each{chooser{layout_.head_rows()}, contexts, lists});
  }

 private:
  struct chooser {
    std::int32_t rows;

    std::int32_t operator()(token t, std::int32_t depth, row_range* ranges) const {
      const std::uint64_t h = mix(static_cast<std::uint64_t>(t * 64 + depth));
      const auto sure = static_cast<std::int32_t>(mix(h) % static_cast<std::uint64_t>(rows));
      std::int32_t count = 0;
      for (std::int32_t row = 0; row < rows; ++row) {
        if (row != sure && (h >> row) % 2 == 0) { continue; }
        row_range* last = ranges + count - 1;
        if (count > 0 && last->end == row) {
          ++last->end;
        } else {
          ranges[count++] = {row, row + 1};
        }
      }
      return count;
    }
  };

  vocab_layout layout_;
};

static_assert(VocabSelector<toy_selector>);

}  // namespace hunch::test

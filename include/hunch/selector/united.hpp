// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// One shortlist for all nodes of a tree that are drafted from at a depth: the union of what
/// another selector chooses for each. More rows for each node, and one product of matrices for all
/// of them. Lossless, as every selector: it knows of the tokens above only.
template <VocabSelector S>
class united {
 public:
  /// \param width the most nodes of a tree at a depth.
  /// \throws std::invalid_argument for a width below 1.
  united(S selector, std::int32_t width) : selector_(std::move(selector)), width_(width) {
    if (width < 1) { throw std::invalid_argument("hunch::selector::united: a width below 1"); }
    all_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(selector_.max_ranges()));
  }

  const vocab_layout& layout() const { return selector_.layout(); }
  std::int32_t max_ranges() const { return at_most(selector_.max_ranges()); }
  std::int32_t max_rows() const { return at_most(selector_.max_rows()); }
  std::int32_t context_width() const requires RoutedSelector<S> {
    return selector_.context_width();
  }

  /// \throws std::length_error if a tree has more nodes than `width`.
  void select(const selector_contexts& contexts, const selector_lists& lists) {
    selector_.select(contexts, lists);
    std::int32_t end = 0;
    for (std::int32_t first = 0; first < contexts.size; first = end) {
      end = first + 1;
      while (end < contexts.size && contexts.tree_of(end) == contexts.tree_of(first)) { ++end; }
      if (end - first > width_) {
        throw std::length_error("hunch::selector::united: more nodes than its width");
      }
      unite(lists, first, end);
    }
  }

 private:
  std::int32_t at_most(std::int64_t of_one) const {
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(of_one * width_, selector_.layout().head_rows()));
  }

  /// Gives the nodes [first, end) the union of their lists.
  void unite(const selector_lists& lists, std::int32_t first, std::int32_t end) {
    if (end - first == 1) { return; }
    auto last = all_.begin();
    for (std::int32_t i = first; i < end; ++i) {
      last = std::copy_n(lists.ranges[i], lists.counts[i], last);
    }
    std::sort(all_.begin(), last,
              [](const row_range& a, const row_range& b) { return a.begin < b.begin; });
    std::int32_t count = 0;
    row_range* const out = lists.ranges[first];
    for (auto range = all_.begin(); range != last; ++range) {
      if (count > 0 && range->begin <= out[count - 1].end) {
        out[count - 1].end = std::max(out[count - 1].end, range->end);
      } else {
        out[count++] = *range;
      }
    }
    lists.counts[first] = count;
    for (std::int32_t i = first + 1; i < end; ++i) {
      std::copy_n(out, count, lists.ranges[i]);
      lists.counts[i] = count;
    }
  }

  S selector_;
  std::int32_t width_;
  std::vector<row_range> all_;
};

}  // namespace hunch::selector

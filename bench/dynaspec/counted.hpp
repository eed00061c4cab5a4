// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <hunch/selector/any.hpp>
#include <hunch/selector/selector.hpp>

namespace bench::dynaspec {

/// Shortlists that were chosen, by their depth.
class chosen_rows {
 public:
  void add(std::int32_t depth, std::int64_t rows) {
    const auto at = static_cast<std::size_t>(depth);
    if (at >= rows_.size()) {
      rows_.resize(at + 1);
      lists_.resize(at + 1);
    }
    rows_[at] += rows;
    ++lists_[at];
  }

  /// Of the levels of a draft, each with the mean of its lists: what a product over the lists of a
  /// level costs where they agree, and the mean of a chain.
  double mean() const {
    double sum = 0.0;
    for (std::size_t d = 0; d < rows_.size(); ++d) {
      sum += static_cast<double>(rows_[d]) / static_cast<double>(lists_[d]);
    }
    return rows_.empty() ? 0.0 : sum / static_cast<double>(rows_.size());
  }

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> lists_;
};

/// Another selector, whose lists are counted.
class counted {
 public:
  counted(hunch::selector::any<> of, chosen_rows& to) : of_(std::move(of)), to_(&to) {}

  const hunch::vocab_layout& layout() const { return of_.layout(); }
  std::int32_t max_ranges() const { return of_.max_ranges(); }
  std::int32_t max_rows() const { return of_.max_rows(); }
  std::int32_t context_width() const { return of_.context_width(); }

  template <class E>
  struct memory {
    memory(const counted& of, E& executor, std::int32_t capacity)
        : own(of.of_, executor, capacity) {}
    hunch::selector::any<>::memory<E> own;
  };

  template <class E>
  void select(memory<E>& m, E& executor, const hunch::selector_contexts& contexts,
              const hunch::selector_lists& lists) {
    of_.select(m.own, executor, contexts, lists);
    executor.synchronize();
    for (std::int32_t i = 0; i < contexts.size; ++i) {
      if (lists.ranges[i] == nullptr) { continue; }
      std::int64_t rows = 0;
      std::for_each_n(lists.ranges[i], lists.counts[i],
                      [&](const hunch::row_range& r) { rows += r.end - r.begin; });
      to_->add(contexts.depth, rows);
    }
  }

 private:
  hunch::selector::any<> of_;
  chosen_rows* to_;
};

}  // namespace bench::dynaspec

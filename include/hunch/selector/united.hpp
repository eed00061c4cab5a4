// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <hunch/selector/detail/unite_lists.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::selector {

/// One shortlist for all nodes of a tree that are drafted from at a depth: the union of what
/// another selector chooses for each. More rows for each node, and one product of matrices for all
/// of them. Lossless, as every selector: it knows of the tokens above only.
template <VocabSelector S>
class united {
 public:
  /// \param width the most nodes of a tree at a depth that are given one list; if there are more,
  ///        each has its own.
  /// \throws std::invalid_argument for a width below 1.
  united(S selector, std::int32_t width) : selector_(std::move(selector)), width_(width) {
    if (width < 1) { throw std::invalid_argument("hunch::selector::united: a width below 1"); }
  }

  const vocab_layout& layout() const { return selector_.layout(); }
  std::int32_t max_ranges() const { return at_most(selector_.max_ranges()); }
  std::int32_t max_rows() const { return at_most(selector_.max_rows()); }
  std::int32_t context_width() const requires RoutedSelector<S> {
    return selector_.context_width();
  }

  /// The lists before they are united.
  template <class E>
  class memory {
   public:
    memory(const united& of, E& executor, std::int32_t capacity)
        : inner(of.selector_, executor, capacity),
          each_(of.selector_.max_ranges()),
          sorted_(executor, static_cast<std::size_t>(capacity) * static_cast<std::size_t>(each_)) {}

    typename S::template memory<E> inner;
    row_range* sorted() const { return sorted_.data(); }  ///< [capacity, each]
    std::int32_t each() const { return each_; }

   private:
    std::int32_t each_;
    typename E::template buffer<row_range> sorted_;
  };

  template <class E>
  void select(memory<E>& m, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) {
    selector_.select(m.inner, executor, contexts, lists);
    executor.launch(contexts.size,
                    kernel::unite_lists{contexts, lists, width_, m.sorted(), m.each()});
  }

 private:
  std::int32_t at_most(std::int64_t of_one) const {
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(of_one * width_, selector_.layout().head_rows()));
  }

  S selector_;
  std::int32_t width_;
};

}  // namespace hunch::selector

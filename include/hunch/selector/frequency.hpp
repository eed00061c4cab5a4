// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/selector/selector.hpp>

namespace hunch::selector {

/// FR-Spec: the r most frequent tokens of a corpus, the same for every context. The head is stored
/// in the order of frequency, so that the shortlist is its prefix. (Zhao et al. 2025,
/// arXiv:2502.14856.) With `budget::position_aware` the prefix shrinks with the depth. Lossless, as
/// every selector.
template <Budget B = budget::fixed>
class frequency {
 public:
  /// The first rows of a head in the order of `ranked`, as many as `rows` allows.
  /// \param ranked the most frequent token first, see `frequency_ranking`.
  /// \throws std::invalid_argument if `rows` allows none, or more than the head has.
  frequency(vocab_layout ranked, B rows) : layout_(std::move(ranked)), rows_(rows) {
    if (rows.most < 1 || rows.most > layout_.head_rows()) {
      throw std::invalid_argument(message(
          {"hunch::selector::frequency: ", rows.most, " rows of a head of ", layout_.head_rows()}));
    }
  }
  frequency(vocab_layout ranked, std::int32_t rows) requires std::same_as<B, budget::fixed>
      : frequency(std::move(ranked), B{rows}) {}

  const vocab_layout& layout() const { return layout_; }
  static constexpr std::int32_t max_ranges() { return 1; }
  std::int32_t max_rows() const { return rows_.most; }

  prefix_chooser<B> chooser() const { return {rows_}; }
  template <class E>
  using memory = no_memory<E>;
  template <class E>
  void select(memory<E>&, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    executor.launch(contexts.size, choose_each{chooser(), contexts, lists});
  }

 private:
  vocab_layout layout_;
  B rows_;
};

frequency(vocab_layout, std::int32_t)->frequency<budget::fixed>;

}  // namespace hunch::selector

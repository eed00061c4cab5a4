// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <hunch/selector/selector.hpp>

namespace hunch::selector {

/// The whole head: one range. Lossless, as every selector.
class full {
 public:
  /// A head in token order. \throws std::invalid_argument for an empty vocabulary.
  explicit full(std::int32_t vocab_size) : layout_(vocab_layout::identity(vocab_size)) {}
  /// A head in another order, or with fewer rows than the vocabulary has tokens.
  explicit full(vocab_layout layout) : layout_(std::move(layout)) {}

  const vocab_layout& layout() const { return layout_; }
  static constexpr std::int32_t max_ranges() { return 1; }
  std::int32_t max_rows() const { return layout_.head_rows(); }

  prefix_chooser<> chooser() const { return {{layout_.head_rows()}}; }
  template <class E>
  using memory = no_memory<E>;
  template <class E>
  void select(memory<E>&, E& executor, const selector_contexts& contexts,
              const selector_lists& lists) const {
    executor.launch(contexts.size, choose_each{chooser(), contexts, lists});
  }

 private:
  vocab_layout layout_;
};

}  // namespace hunch::selector

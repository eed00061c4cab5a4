// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/draft_head.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/thread_pool.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// A language-model head that one of several draft heads has to itself: its weights in token order,
/// and in the order of a layout.
class own_head {
 public:
  /// The tensor `name`, [rows, columns], as its target's arithmetic holds it. Throws like
  /// `checkpoint::matrix`.
  own_head(const checkpoint& weights, const std::string& name, int rows, int columns,
           arithmetic kind);

  /// The threads outlive it.
  void set_layout(const hunch::vocab_layout& layout, thread_pool& pool);
  /// \pre `set_layout`
  std::uint64_t order() const { return ordered_->order(); }

  /// Logits of those rows of `asked` that belong to this head: row % heads == which.
  /// \pre `set_layout`
  void multiply(const float* hidden, int stride, const hunch::head_rows<float>& asked,
                std::int32_t heads, std::int32_t which);

 private:
  stored_matrix in_token_order_;
  std::optional<draft_head> ordered_;
  std::vector<std::int32_t> row_;  ///< of those that are multiplied
  std::vector<hunch::shortlist> lists_;
  std::vector<hunch::row_view<float>> logits_;
};

}  // namespace engine

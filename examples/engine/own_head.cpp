// SPDX-License-Identifier: Apache-2.0
#include <engine/own_head.hpp>

#include <string>

namespace engine {

own_head::own_head(const checkpoint& weights, const std::string& name, int rows, int columns,
                   arithmetic kind) {
  const matrix_view of = weights.matrix(name, rows, columns);
  in_token_order_ = {kind, all_rows(of), columns};
}

void own_head::set_layout(const hunch::vocab_layout& layout, thread_pool& pool) {
  if (ordered_ && ordered_->order() == layout.order()) { return; }
  ordered_.emplace(head_source(in_token_order_.packed), layout, pool);
}

void own_head::multiply(const float* hidden, int stride, const hunch::head_rows<float>& asked,
                        std::int32_t heads, std::int32_t which) {
  row_.clear();
  lists_.clear();
  logits_.clear();
  for (std::int32_t i = 0; i < asked.size; ++i) {
    if (asked.row[i] % heads != which) { continue; }
    row_.push_back(asked.row[i]);
    lists_.push_back(asked.lists[i]);
    logits_.push_back(asked.logits[i]);
  }
  ordered_->multiply(hidden, stride,
                     {.size = static_cast<std::int32_t>(row_.size()),
                      .row = row_.data(),
                      .lists = lists_.data(),
                      .logits = logits_.data()});
}

}  // namespace engine

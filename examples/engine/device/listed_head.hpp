// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/device/matrix.hpp>
#include <engine/device/permute_head.hpp>
#include <engine/device/weights.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine::device {

/// A head that is asked for parts of itself, in the order of a layout: one for all that draft with
/// it. Until it is given a layout it has token order.
template <hunch::ResidentExecutor Executor>
class listed_head {
 public:
  /// \param all the rows of the head in token order; they outlive it.
  listed_head(Executor& executor, const matrix& all)
      : all_(all),
        own_(executor, 0),
        head_{all.data, all.outputs, all.width},
        product_(executor, all.outputs, all.width),
        order_(hunch::vocab_layout::identity(all.outputs).order()) {}

  std::uint64_t order() const { return order_; }

  /// Stores a copy of the rows in the order of `layout`. Not while a step runs.
  /// \throws std::invalid_argument if the layout is of another vocabulary.
  void set_layout(Executor& executor, const hunch::vocab_layout& layout) {
    if (layout.vocab_size() != all_.outputs) {
      throw std::invalid_argument(
          "engine::device_model: a head layout of " + std::to_string(layout.vocab_size()) +
          " tokens does not fit the model's vocabulary of " + std::to_string(all_.outputs));
    }
    if (layout.order() == order_) { return; }
    const std::int32_t rows = layout.head_rows();
    const hunch::bfloat16* data = all_.data;
    if (layout.row_token() != nullptr) {
      const std::vector<hunch::token> tokens(layout.row_token(), layout.row_token() + rows);
      const auto row_token = uploaded(executor, tokens);
      resident<hunch::bfloat16> own(
          executor, static_cast<std::size_t>(rows) * static_cast<std::size_t>(all_.width));
      executor.launch(rows, permute_head{all_, row_token.data(), own.data()});
      executor.synchronize();
      own_ = std::move(own);  // from here on nothing throws
      data = own_.data();
    }
    head_ = {data, rows, all_.width};
    order_ = layout.order();
  }

  /// Writes the logits of the listed rows of `states`, [rows, stride], over their shortlists.
  void multiply(Executor& executor, const float* states, const hunch::head_rows<float>& rows) {
    product_(executor, head_, states, head_.width, rows);
  }

 private:
  template <class T>
  using resident = hunch::workspace<Executor, T>;

  matrix all_;
  resident<hunch::bfloat16> own_;  ///< in the order of a layout, unless that is token order
  hunch::kernel::head_weights<hunch::bfloat16> head_;
  hunch::shortlist_head<Executor, hunch::bfloat16> product_;
  std::uint64_t order_;
};

}  // namespace engine::device

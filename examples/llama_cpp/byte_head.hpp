// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/executor/host.hpp>
#include <hunch/head/head_weights.hpp>
#include <hunch/head/shortlist_head.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "gguf_head.hpp"

namespace llama_cpp {

/// A head in bytes with a factor for each row, in the order of a layout: a quarter of the memory of
/// float32, which is what its time is made of. A draft law that differs a little is as exact.
/// Multiplies on the calling thread.
class byte_head {
 public:
  /// Copies the rows of `from`. \throws std::invalid_argument for a layout of other tokens.
  byte_head(gguf_head& from, const hunch::vocab_layout& layout)
      : order_(layout.order()),
        rows_(layout.head_rows()),
        width_(padded(from.width())),
        values_(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_)),
        scale_(static_cast<std::size_t>(rows_)),
        product_(executor_, rows_, width_) {
    if (layout.vocab_size() != from.rows()) {
      throw std::invalid_argument("llama_cpp: a layout of " + std::to_string(layout.vocab_size()) +
                                  " tokens and a head of " + std::to_string(from.rows()));
    }
    std::vector<float> row(static_cast<std::size_t>(from.width()));
    for (std::int32_t r = 0; r < rows_; ++r) {
      from.read_row(layout.row_token() == nullptr ? r : layout.row_token()[r], row.data());
      store(r, row);
    }
  }

  /// States are padded with zeros to as many elements, for whole cache lines.
  static std::int32_t padded(std::int32_t width) { return (width + 63) / 64 * 64; }

  std::uint64_t order() const { return order_; }
  std::int32_t width() const { return width_; }

  /// \param hidden [rows of the pass, width]
  void multiply(const float* hidden, const hunch::head_rows<float>& asked) {
    product_(executor_, {values_.data(), rows_, width_, scale_.data()}, hidden, width_, asked);
  }

 private:
  void store(std::int32_t r, const std::vector<float>& row) {
    float largest = 0.0f;
    for (const float x : row) { largest = std::max(largest, std::abs(x)); }
    const float scale = largest / 127.0f;
    scale_[static_cast<std::size_t>(r)] = scale;
    std::int8_t* const out = values_.data() + std::ptrdiff_t{r} * width_;
    std::transform(row.begin(), row.end(), out, [scale](float x) {
      return static_cast<std::int8_t>(scale > 0.0f ? std::round(x / scale) : 0.0f);
    });
  }

  std::uint64_t order_;
  std::int32_t rows_;
  std::int32_t width_;
  std::vector<std::int8_t> values_;  ///< [rows, width]
  std::vector<float> scale_;         ///< [rows]
  hunch::executor::host executor_;
  hunch::shortlist_head<hunch::executor::host, std::int8_t> product_;
};

}  // namespace llama_cpp

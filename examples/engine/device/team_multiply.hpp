// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <engine/device/matrix.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/range_gemv.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

namespace engine::device {

/// y = w x for the outputs of part `index % parts` of row `index / parts`.
struct product_part {
  static constexpr std::int32_t outputs = 256;

  matrix weights;
  const float* inputs;  ///< [rows, weights.width]
  float* to;            ///< [rows, weights.outputs]
  const std::uint8_t* asked;
  std::int32_t parts;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t row = index / parts;
    if (asked[row] == 0) { return; }
    const std::int32_t first = index % parts * outputs;
    const std::int32_t left = weights.outputs - first;
    const std::int32_t count = left < outputs ? left : outputs;
    const hunch::row_range mine{first, first + count};
    hunch::kernel::range_gemv(
        team,
        hunch::kernel::head_weights<hunch::bfloat16>{weights.data, weights.outputs, weights.width},
        hunch::shortlist{&mine, 1, count}, inputs + static_cast<std::int64_t>(row) * weights.width,
        hunch::row_view<float>{to + static_cast<std::int64_t>(row) * weights.outputs + first,
                               count});
  }
};

/// Adds the product of row `index`.
struct add_product {
  const float* product;  ///< [rows, size]
  std::int32_t size;
  float* to;  ///< [rows, size]
  const std::uint8_t* asked;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (asked[index] == 0) { return; }
    const float* const from = product + static_cast<std::int64_t>(index) * size;
    float* const sum = to + static_cast<std::int64_t>(index) * size;
    team.for_each(size, [=](std::int64_t i) { sum[i] += from[i]; });
  }
};

/// Matrix products by bodies, on any executor: each row on its own, so that its result depends on
/// no other. Rows that nobody asked for are left out.
///
/// A policy of products P is constructed from (executor, largest number of rows); p.prepare(w,
/// mode) announces a product, with no step running, and p(w, x, rows, y, mode, asked) computes
/// it for the first `rows` rows, of which at least those must be right that `asked` says.
/// x is [rows, w.width] of `P::input`, with zeros after the inputs; y is [rows, w.outputs]. The
/// matrices of layers lie in memory as `P::stored<Executor>`.
template <class Executor>
class team_multiply {
 public:
  using input = float;
  template <class E>
  using stored = bf16_matrix<E>;

  team_multiply(Executor& executor, std::int32_t max_rows)
      : executor_(executor), max_rows_(max_rows), product_(executor_, 0) {}

  void prepare(const matrix& w, into mode) {
    const auto size = static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(w.outputs);
    if (mode == into::add && size > product_.size()) { product_ = buffer(executor_, size); }
  }

  void operator()(const matrix& w, const float* x, std::int32_t rows, float* y, into mode,
                  const std::uint8_t* asked) {
    const std::int32_t parts = (w.outputs + product_part::outputs - 1) / product_part::outputs;
    if (mode == into::overwrite) {
      executor_.launch(rows * parts, product_part{w, x, y, asked, parts});
      return;
    }
    executor_.launch(rows * parts, product_part{w, x, product_.data(), asked, parts});
    executor_.launch(rows, add_product{product_.data(), w.outputs, y, asked});
  }

 private:
  using buffer = typename Executor::template resident<float>;

  Executor executor_;
  std::int32_t max_rows_;
  buffer product_;
};

}  // namespace engine::device

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

/// out = `count` outputs of w x from `first` on. Collective.
template <hunch::Team T>
HUNCH_HOST_DEVICE void multiply_outputs(T& team, const matrix& w, std::int32_t first,
                                        std::int32_t count, const float* x, float* out) {
  const hunch::row_range mine{first, first + count};
  hunch::kernel::range_gemv(
      team, hunch::kernel::head_weights<hunch::bfloat16>{w.data, w.outputs, w.width},
      hunch::shortlist{&mine, 1, count}, x, hunch::row_view<float>{out, count});
}

/// y = w x for the outputs of part `index % parts` of row `index / parts`.
template <class Matrix>
struct product_part {
  static constexpr std::int32_t outputs = 256;

  Matrix weights;
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
    multiply_outputs(team, weights, first, count,
                     inputs + static_cast<std::int64_t>(row) * weights.width,
                     to + static_cast<std::int64_t>(row) * weights.outputs + first);
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
/// no other. Rows that nobody asked for are left out. Matrices are of any kind that has
/// `multiply_outputs`.
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

  template <class Matrix>
  void prepare(const Matrix& w, into mode) {
    const auto size = static_cast<std::size_t>(max_rows_) * static_cast<std::size_t>(w.outputs);
    if (mode == into::add && size > product_.size()) { product_ = buffer(executor_, size); }
  }

  template <class Matrix>
  void operator()(const Matrix& w, const float* x, std::int32_t rows, float* y, into mode,
                  const std::uint8_t* asked) {
    using part = product_part<Matrix>;
    const std::int32_t parts = (w.outputs + part::outputs - 1) / part::outputs;
    if (mode == into::overwrite) {
      executor_.launch(rows * parts, part{w, x, y, asked, parts});
      return;
    }
    executor_.launch(rows * parts, part{w, x, product_.data(), asked, parts});
    executor_.launch(rows, add_product{product_.data(), w.outputs, y, asked});
  }

 private:
  using buffer = hunch::workspace<Executor, float>;

  Executor executor_;
  std::int32_t max_rows_;
  buffer product_;
};

}  // namespace engine::device

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include <engine/multiply.hpp>
#include <engine/packed_matrix.hpp>

/// Products of packed matrices in every arithmetic. No model is needed, so that the kernels of
/// other processors are compiled and tried, too.

namespace {

using engine::arithmetic;
using engine::group_size;

/// A matrix of floats with its packed form.
struct packed {
  packed(std::vector<float> v, int rows, int columns, arithmetic kind = arithmetic::int4)
      : values{std::move(v)},
        view{engine::dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(values.data()),
             nullptr},
        stored{kind, engine::all_rows(view), columns} {}

  /// The weights of an output as they are stored, scaled.
  std::vector<float> row(int i) const {
    std::vector<float> out(static_cast<std::size_t>(view.columns));
    stored.packed.read_row(i, out.data());
    const float* const scale = stored.packed.scale();
    for (float& v : out) { v *= scale == nullptr ? 1.0f : scale[i]; }
    return out;
  }

  std::vector<float> values;
  engine::matrix_view view;
  engine::stored_matrix stored;
};

std::vector<float> random_values(int count, std::uint32_t seed) {
  std::mt19937 source(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& v : out) { v = normal(source); }
  return out;
}

double square_error(const float* a, const float* b, int count) {
  double out = 0.0;
  for (int k = 0; k < count; ++k) {
    const double d = static_cast<double>(a[k]) - static_cast<double>(b[k]);
    out += d * d;
  }
  return out;
}

/// Activations as the definition says, in double.
std::vector<double> quantised(const std::vector<float>& x) {
  std::vector<double> out;
  for (std::size_t first = 0; first < x.size(); first += group_size) {
    const std::size_t end = std::min(x.size(), first + group_size);
    float largest = 0.0f;
    for (std::size_t k = first; k < end; ++k) { largest = std::max(largest, std::fabs(x[k])); }
    const float unit = largest / 127.0f;
    for (std::size_t k = first; k < end; ++k) {
      const double q = largest == 0.0f ? 0.0 : std::nearbyint(x[k] * (127.0f / largest));
      out.push_back(q * static_cast<double>(unit));
    }
  }
  return out;
}

/// rows x outputs, through the engine's product.
std::vector<float> multiply(const packed& w, const std::vector<std::vector<float>>& x,
                            engine::into mode, float before = 0.0f) {
  const int outputs = w.view.rows;
  const int inputs = w.view.columns;
  const int padded = engine::round_up(inputs, engine::lanes);
  const int stride = engine::round_up(outputs, engine::lanes);
  const arithmetic kind = w.stored.packed.kind();
  const std::size_t row_bytes = engine::activation_bytes(kind, inputs);
  engine::aligned_buffer<std::byte> activations(row_bytes * x.size());
  const engine::activation_view view{activations.data(), row_bytes};
  for (std::size_t r = 0; r < x.size(); ++r) {
    std::vector<float> row = x[r];
    row.resize(static_cast<std::size_t>(padded));
    engine::store_activations(kind, row.data(), padded, view.row(static_cast<int>(r)));
  }
  std::vector<float> y(x.size() * static_cast<std::size_t>(stride), before);
  engine::multiply(w.stored.packed, view, y.data(), stride, static_cast<int>(x.size()), mode, 0,
                   w.stored.packed.blocks());
  std::vector<float> out;
  for (std::size_t r = 0; r < x.size(); ++r) {
    const auto begin = y.begin() + static_cast<std::ptrdiff_t>(r) * stride;
    out.insert(out.end(), begin, begin + outputs);
  }
  return out;
}

}  // namespace

TEST_CASE("a group of 4-bit weights is within half a step, or nearly at its end") {
  for (const int columns : {32, 64, 40, 7, 1}) {
    for (const float size : {1.0f, 1e-20f, 1e20f}) {
      constexpr int rows = 70;
      std::vector<float> values = random_values(rows * columns, 3);
      for (float& v : values) { v *= size; }
      values[0] *= 30.0f;
      const packed w(values, rows, columns);
      bool differs = false;
      for (int i = 0; i < rows; ++i) {
        const std::vector<float> got = w.row(i);
        const float* const from = values.data() + i * columns;
        for (int first = 0; first < columns; first += group_size) {
          const int count = std::min(group_size, columns - first);
          float largest = 0.0f;
          for (int k = 0; k < count; ++k) {
            largest = std::max(largest, std::fabs(from[first + k]));
          }
          std::vector<float> plain;
          for (int k = 0; k < count; ++k) {
            const float unit = largest / 7.0f;
            plain.push_back(std::nearbyint(from[first + k] / unit) * unit);
            const float error =
                std::fabs(got[static_cast<std::size_t>(first + k)] - from[first + k]);
            CHECK(error <= 0.2f * largest);
            differs = differs || error > 0.0f;
          }
          // Not worse than the largest value as 7, but for the rounding of the scale to bf16.
          const double own = square_error(got.data() + first, from + first, count);
          const double room = 0.004 * static_cast<double>(largest);
          CHECK(std::sqrt(own) <= std::sqrt(square_error(plain.data(), from + first, count)) +
                                      room * std::sqrt(static_cast<double>(count)));
        }
      }
      CHECK(differs);
    }
  }
}

TEST_CASE("what 4-bit integers can hold is held exactly") {
  std::vector<float> values(3 * 48);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = 0.375f * static_cast<float>(static_cast<int>(k * 5 % 16) - 8);
  }
  std::fill_n(values.begin(), 32, 0.0f);
  const packed w(values, 3, 48);
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> got = w.row(i);
    CHECK(std::equal(got.begin(), got.end(), values.begin() + i * 48));
  }
}

TEST_CASE("a row of 8-bit weights is within half a step") {
  for (const int columns : {1, 7, 32, 100}) {
    for (const float size : {1.0f, 1e-20f, 1e20f}) {
      constexpr int rows = 70;
      std::vector<float> values = random_values(rows * columns, 3);
      for (float& v : values) { v *= size; }
      std::fill_n(values.begin() + columns, columns, 0.0f);
      const packed w(values, rows, columns, arithmetic::int8);
      for (int i = 0; i < rows; ++i) {
        const std::vector<float> got = w.row(i);
        const float* const from = values.data() + i * columns;
        float largest = 0.0f;
        for (int k = 0; k < columns; ++k) { largest = std::max(largest, std::fabs(from[k])); }
        for (int k = 0; k < columns; ++k) {
          CHECK(std::fabs(got[static_cast<std::size_t>(k)] - from[k]) <= largest * 0.50001f / 127);
        }
      }
    }
  }
}

TEST_CASE("integers of a checkpoint stay what they are in 8 bits") {
  constexpr int rows = 20, columns = 40;
  std::vector<std::int8_t> values(rows * columns);
  for (std::size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<std::int8_t>(static_cast<int>(k * 7 % 256) - 128);
  }
  std::vector<float> scale(rows);
  for (int i = 0; i < rows; ++i) {
    scale[static_cast<std::size_t>(i)] = 0.01f * static_cast<float>(i + 1);
  }
  const engine::matrix_view view{engine::dtype::i8, rows, columns,
                                 reinterpret_cast<const std::byte*>(values.data()),
                                 reinterpret_cast<const std::byte*>(scale.data())};
  const engine::stored_matrix stored(arithmetic::int8, engine::all_rows(view), columns);
  for (int i = 0; i < rows; ++i) {
    std::vector<float> got(columns);
    stored.packed.read_row(i, got.data());
    CHECK(std::equal(got.begin(), got.end(), values.begin() + i * columns));
    CHECK(stored.packed.scale()[i] == scale[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("weights that are no numbers are not hidden in 8 bits") {
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = random_values(20 * 64, 5);
    values[3 * 64 + 17] = broken;
    const packed w(values, 20, 64, arithmetic::int8);
    const std::vector<float> got = multiply(w, {random_values(64, 1)}, engine::into::overwrite);
    for (std::size_t o = 0; o < 20; ++o) { CHECK(std::isfinite(got[o]) == (o != 3)); }
  }
}

TEST_CASE_TEMPLATE("the product is that of the stored weights and of bytes", Kind,
                   std::integral_constant<arithmetic, arithmetic::int8>,
                   std::integral_constant<arithmetic, arithmetic::int4>) {
  for (const int outputs : {1, 16, 17, 33, 50, 64, 70, 130}) {
    for (const int inputs : {1, 15, 16, 31, 32, 48, 100, 256}) {
      CAPTURE(outputs);
      CAPTURE(inputs);
      const packed w(random_values(outputs * inputs, 5), outputs, inputs, Kind::value);
      std::vector<std::vector<float>> x;
      for (std::uint32_t r = 0; r < 13; ++r) { x.push_back(random_values(inputs, 100 + r)); }
      std::fill(x[3].begin(), x[3].end(), 0.0f);
      x[4][0] *= 1000.0f;
      const std::vector<float> got = multiply(w, x, engine::into::overwrite, 7.0f);
      const std::vector<float> added = multiply(w, x, engine::into::add, 7.0f);
      double worst = 0.0;
      double from_floats = 0.0;
      for (std::size_t r = 0; r < x.size(); ++r) {
        const std::vector<double> q = quantised(x[r]);
        for (int o = 0; o < outputs; ++o) {
          const std::vector<float> row = w.row(o);
          double sum = 0.0;
          double exact = 0.0;
          double size = 1e-30;
          for (std::size_t k = 0; k < q.size(); ++k) {
            sum += static_cast<double>(row[k]) * q[k];
            exact += static_cast<double>(row[k]) * static_cast<double>(x[r][k]);
            size += std::fabs(static_cast<double>(row[k]) * q[k]);
          }
          const std::size_t at =
              r * static_cast<std::size_t>(outputs) + static_cast<std::size_t>(o);
          worst = std::max(worst, std::fabs(static_cast<double>(got[at]) - sum) / size);
          from_floats =
              std::max(from_floats, std::fabs(static_cast<double>(got[at]) - exact) / size);
          CHECK(added[at] == got[at] + 7.0f);
        }
        CHECK(multiply(w, {x[r]}, engine::into::overwrite) ==
              std::vector<float>(got.begin() + static_cast<std::ptrdiff_t>(r) * outputs,
                                 got.begin() + static_cast<std::ptrdiff_t>(r + 1) * outputs));
      }
      CHECK(worst < 2e-6);
      // Bytes are not floats: the definition above is what is computed.
      if (inputs >= 48) { CHECK(from_floats > 1e-4); }
    }
  }
}

TEST_CASE("products of floats do not depend on how many rows there are") {
  std::vector<arithmetic> kinds{arithmetic::f32, arithmetic::bf16_fma};
  if (engine::has_bf16_dot()) { kinds.push_back(arithmetic::bf16_dot); }
  for (const arithmetic kind : kinds) {
    for (const int outputs : {1, 16, 33, 50, 64, 130}) {
      for (const int inputs : {1, 15, 32, 100}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(outputs);
        CAPTURE(inputs);
        const packed w(random_values(outputs * inputs, 5), outputs, inputs, kind);
        std::vector<std::vector<float>> x;
        for (std::uint32_t r = 0; r < 13; ++r) { x.push_back(random_values(inputs, 100 + r)); }
        const std::vector<float> got = multiply(w, x, engine::into::overwrite, 7.0f);
        double worst = 0.0;
        for (std::size_t r = 0; r < x.size(); ++r) {
          const auto begin = got.begin() + static_cast<std::ptrdiff_t>(r) * outputs;
          for (int o = 0; o < outputs; ++o) {
            const std::vector<float> row = w.row(o);
            double sum = 0.0;
            double size = 1e-30;
            for (std::size_t k = 0; k < row.size(); ++k) {
              const double product = static_cast<double>(row[k]) * static_cast<double>(x[r][k]);
              sum += product;
              size += std::fabs(product);
            }
            worst = std::max(worst, std::fabs(static_cast<double>(begin[o]) - sum) / size);
          }
          const std::vector<float> alone = multiply(w, {x[r]}, engine::into::overwrite);
          CHECK(std::equal(alone.begin(), alone.end(), begin));
          for (std::size_t end = r + 1; end <= std::min(r + 7, x.size()); ++end) {
            const std::vector<std::vector<float>> some(
                x.begin() + static_cast<std::ptrdiff_t>(r),
                x.begin() + static_cast<std::ptrdiff_t>(end));
            const std::vector<float> together = multiply(w, some, engine::into::overwrite);
            CHECK(std::equal(together.begin(), together.end(), begin));
          }
        }
        CHECK(worst < (kind == arithmetic::bf16_dot ? 1e-2 : 2e-6));
      }
    }
  }
}

TEST_CASE("activations that are no numbers are not hidden") {
  for (const arithmetic kind : {arithmetic::int8, arithmetic::int4}) {
    const packed w(random_values(20 * 64, 5), 20, 64, kind);
    for (const float broken :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      std::vector<std::vector<float>> x{random_values(64, 1), random_values(64, 2)};
      x[1][40] = broken;
      const std::vector<float> got = multiply(w, x, engine::into::overwrite);
      for (int o = 0; o < 20; ++o) {
        CHECK(std::isfinite(got[static_cast<std::size_t>(o)]));
        CHECK(std::isnan(got[static_cast<std::size_t>(20 + o)]));
      }
    }
  }
}

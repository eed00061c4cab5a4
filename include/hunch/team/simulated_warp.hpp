// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/team/worker.hpp>

namespace hunch::team {

/// A warp with tensor cores by a host thread, for tests: every lane in turn, and products from the
/// words of worker.hpp. (A device rounds sums of products in its own way.)
struct simulated_warp {
  static constexpr std::int32_t lanes = 32;
  static constexpr bool has_tensor_cores = true;
  template <class T>
  using per_lane = std::array<T, 32>;

  template <class F, class... X>
  static void each(F&& f, std::array<X, 32>&... x) {
    for (std::size_t l = 0; l < 32; ++l) { f(static_cast<std::int32_t>(l), x[l]...); }
  }

  static void sync() {}

  static std::int32_t sum(const per_lane<std::int32_t>& x) {
    std::int32_t all = 0;
    for (const std::int32_t v : x) { all += v; }
    return all;
  }
  static void before(per_lane<std::int32_t>& x) {
    std::int32_t sum = 0;
    for (std::int32_t& v : x) {
      const std::int32_t mine = v;
      v = sum;
      sum += mine;
    }
  }
  static std::uint32_t any(const per_lane<std::uint32_t>& x) {
    std::uint32_t all = 0;
    for (const std::uint32_t v : x) { all |= v; }
    return all;
  }
  static std::uint64_t largest(const per_lane<std::uint64_t>& x) {
    std::uint64_t most = 0;
    for (const std::uint64_t v : x) { most = v > most ? v : most; }
    return most;
  }

  template <class Half>
  static void multiply_add(per_lane<product_sums>& c, const per_lane<factor_rows>& a,
                           const per_lane<factor_columns>& b, Half) {
    const auto number = [](std::uint32_t word, std::size_t i) {
      return to_float(Half{static_cast<std::uint16_t>(word >> (16 * i))});
    };
    float left[16][16];
    float right[16][8];
    for (std::size_t l = 0; l < 32; ++l) {
      const std::size_t g = l / 4;
      const std::size_t t = l % 4;
      for (std::size_t i = 0; i < 2; ++i) {
        left[g][2 * t + i] = number(a[l].of[0], i);
        left[g + 8][2 * t + i] = number(a[l].of[1], i);
        left[g][2 * t + 8 + i] = number(a[l].of[2], i);
        left[g + 8][2 * t + 8 + i] = number(a[l].of[3], i);
        right[2 * t + i][g] = number(b[l].of[0], i);
        right[2 * t + 8 + i][g] = number(b[l].of[1], i);
      }
    }
    const auto add = [&](float& sum, std::size_t row, std::size_t column) {
      for (std::size_t k = 0; k < 16; ++k) { sum += left[row][k] * right[k][column]; }
    };
    for (std::size_t l = 0; l < 32; ++l) {
      const std::size_t g = l / 4;
      const std::size_t t = l % 4;
      for (std::size_t i = 0; i < 2; ++i) {
        add(c[l].of[i], g, 2 * t + i);
        add(c[l].of[2 + i], g + 8, 2 * t + i);
      }
    }
  }

  static void fold_halves(per_lane<float>& x) {
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (const std::size_t first : {std::size_t(0), std::size_t(16)}) {
        for (std::size_t l = 0; l < half; ++l) { x[first + l] += x[first + l + half]; }
      }
    }
  }
};

}  // namespace hunch::team

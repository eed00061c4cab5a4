// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <engine/device/matrix.hpp>
#include <engine/device/team_multiply.hpp>
#include <engine/device/weights.hpp>
#include <engine/quantised_group.hpp>
#include <hunch/core/arithmetic.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/canonical.hpp>
#include <hunch/team/team.hpp>

namespace engine::device {

static_assert(width_unit == group_size);

/// Weights [outputs, width] in groups of `group_size` integers of four bits with a scale,
/// row-major; a view.
struct int4_view {
  const std::uint8_t* values = nullptr;     ///< [outputs, width / 2] 8 more than each is, the
                                            ///< first half of a group in the low bits
  const hunch::bfloat16* scales = nullptr;  ///< [outputs, width / group_size]
  std::int32_t outputs = 0;
  std::int32_t width = 0;  ///< inputs, padded

  /// The product of group `g` of a row with its inputs.
  HUNCH_HOST_DEVICE float group(std::int32_t row, std::int32_t g, const float* x) const {
    constexpr std::int32_t half = group_size / 2;
    const std::int64_t at = static_cast<std::int64_t>(row) * (width / group_size) + g;
    const std::uint8_t* const bytes = values + at * half;
    const float* const inputs = x + g * group_size;
    float low = 0.0f;
    float high = 0.0f;
    for (std::int32_t k = 0; k < half; ++k) {
      low = std::fma(static_cast<float>((bytes[k] & 15) - 8), inputs[k], low);
      high = std::fma(static_cast<float>((bytes[k] >> 4) - 8), inputs[half + k], high);
    }
    return hunch::kernel::product(hunch::to_float(scales[at]), low + high);
  }
};

/// A matrix in resident memory in this form, as `arithmetic::int4` rounds it on the CPU.
template <hunch::ResidentExecutor Executor>
class int4_matrix {
 public:
  int4_matrix(Executor& executor, const host_matrix& from)
      : int4_matrix(executor, from.rows(), from.width(), packed(from)) {}

  int4_view view() const { return {values_.data(), scales_.data(), rows_, width_}; }

 private:
  struct groups {
    std::vector<std::uint8_t> values;
    std::vector<hunch::bfloat16> scales;
  };

  int4_matrix(Executor& executor, std::int32_t rows, std::int32_t width, const groups& from)
      : rows_(rows),
        width_(width),
        values_(uploaded(executor, from.values)),
        scales_(uploaded(executor, from.scales)) {}

  static groups packed(const host_matrix& from) {
    constexpr std::size_t half = group_size / 2;
    groups out;
    float group[group_size];
    for (std::size_t at = 0; at < from.values().size(); at += group_size) {
      std::copy_n(from.values().data() + at, group_size, group);
      const quantised_group q = quantise(group);
      out.scales.emplace_back(q.scale);
      for (std::size_t k = 0; k < half; ++k) {
        out.values.push_back(
            static_cast<std::uint8_t>((q.values[k] + 8) | (q.values[half + k] + 8) << 4));
      }
    }
    return out;
  }

  std::int32_t rows_;
  std::int32_t width_;
  hunch::workspace<Executor, std::uint8_t> values_;
  hunch::workspace<Executor, hunch::bfloat16> scales_;
};

/// The sums of a row by eight lanes, each of every eighth group, so that neighbours read what lies
/// side by side; then these by halves.
template <hunch::Team T>
HUNCH_HOST_DEVICE void multiply_outputs(T& team, const int4_view& w, std::int32_t first,
                                        std::int32_t count, const float* x, float* out) {
  constexpr std::int32_t lanes = 8;
  constexpr std::int32_t most = hunch::team::list_capacity / lanes;
  const std::int32_t groups = w.width / group_size;
  const std::int64_t* const sums = team.scratch().list;
  for (std::int32_t begin = 0; begin < count; begin += most) {
    const std::int32_t rows = count - begin < most ? count - begin : most;
    team.fill(rows * lanes, [=](std::int64_t i) {
      const std::int32_t row = first + begin + static_cast<std::int32_t>(i / lanes);
      float sum = 0.0f;
      for (auto g = static_cast<std::int32_t>(i % lanes); g < groups; g += lanes) {
        sum += w.group(row, g, x);
      }
      return hunch::kernel::bit_cast<std::int32_t>(sum);
    });
    team.for_each(rows, [=](std::int64_t r) {
      float lane[lanes];
      for (std::int32_t l = 0; l < lanes; ++l) {
        lane[l] = hunch::kernel::bit_cast<float>(static_cast<std::int32_t>(sums[r * lanes + l]));
      }
      for (std::int32_t half = lanes / 2; half > 0; half /= 2) {
        for (std::int32_t l = 0; l < half; ++l) { lane[l] += lane[l + half]; }
      }
      out[begin + r] = lane[0];
    });
  }
}

/// Products of `team_multiply`, for a copy of a model that drafts for it: the matrices of its
/// layers have four bits a weight. Embedding and head keep the values of the checkpoint.
template <class Executor>
class int4_multiply : public team_multiply<Executor> {
 public:
  template <class E>
  using stored = int4_matrix<E>;

  using team_multiply<Executor>::team_multiply;
};

}  // namespace engine::device

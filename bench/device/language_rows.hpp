// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/team/team.hpp>

/// \file
/// Rows of logits like those of a language model, a few likely tokens before a long tail, made on
/// the device.

namespace bench::device {

inline constexpr std::int32_t vocab = 128256;
inline constexpr std::int32_t common_tokens = 27000;  ///< the likely ones are among the first

HUNCH_HOST_DEVICE inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// About normal, of variance 1: four small uniforms.
HUNCH_HOST_DEVICE inline float noise(std::uint64_t bits) {
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) { sum += static_cast<float>((bits >> 16 * i) & 0xffffu); }
  return (sum / 65536.0f - 2.0f) * 1.7320508f;
}

/// The logit of token `t` in row `row`; `blur` is the scale of what a draft model gets wrong.
HUNCH_HOST_DEVICE inline float language_logit(std::uint64_t row, std::int32_t t, float blur) {
  constexpr float likely = 200.0f / static_cast<float>(common_tokens);
  const std::uint64_t h = mixed(row * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(t) + 1);
  const float u = static_cast<float>(h >> 40) * 0x1p-24f;
  float x = 1.8f * noise(mixed(h));
  if (t < common_tokens && u < likely) {
    x = 18.0f - 2.0f * std::log(1.0f + u * static_cast<float>(common_tokens));
  }
  return x + blur * noise(mixed(h + 1));
}

/// Fills row `index` with the logits of language row `first + index`.
struct fill_rows {
  float* logits;  ///< [rows, size]
  std::int32_t size;
  std::uint64_t first;
  float blur;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    float* const row = logits + static_cast<std::int64_t>(index) * size;
    const std::uint64_t which = first + static_cast<std::uint64_t>(index);
    const float scale = blur;
    team.for_each(size, [=](std::int64_t t) {
      row[t] = language_logit(which, static_cast<std::int32_t>(t), scale);
    });
  }
};

}  // namespace bench::device

// SPDX-License-Identifier: Apache-2.0
#include <engine/rope.hpp>

#include <cmath>
#include <cstddef>
#include <numbers>

#include <engine/simd.hpp>

namespace engine {
namespace {

/// Radians per position of pair `i`.
double frequency(const rope_config& r, int i, int half) {
  const double plain = std::pow(r.theta, -static_cast<double>(i) / half);
  if (r.kind == rope_config::scaling::linear) { return plain / r.factor; }
  if (r.kind == rope_config::scaling::llama3) {
    // Llama 3.1: long waves are stretched, short ones kept, those between blended.
    const double turns = r.original_context * plain / (2.0 * std::numbers::pi);
    if (turns < r.low_frequency_factor) { return plain / r.factor; }
    if (turns > r.high_frequency_factor) { return plain; }
    const double blend =
        (turns - r.low_frequency_factor) / (r.high_frequency_factor - r.low_frequency_factor);
    return (1.0 - blend) * plain / r.factor + blend * plain;
  }
  return plain;
}

}  // namespace

rope::rope(const rope_config& settings, int head_dim, int context) : half_{head_dim / 2} {
  const auto size = static_cast<std::size_t>(context) * static_cast<std::size_t>(half_);
  cosine_.resize(size);
  sine_.resize(size);
  for (int i = 0; i < half_; ++i) {
    const double step = frequency(settings, i, half_);
    for (int position = 0; position < context; ++position) {
      const auto at = static_cast<std::size_t>(position) * static_cast<std::size_t>(half_) +
                      static_cast<std::size_t>(i);
      cosine_[at] = static_cast<float>(std::cos(step * position));
      sine_[at] = static_cast<float>(std::sin(step * position));
    }
  }
}

void rope::rotate(const float* in, int position, float scale, float* out) const {
  const auto at = static_cast<std::size_t>(position) * static_cast<std::size_t>(half_);
  const float* const c = cosine_.data() + at;
  const float* const s = sine_.data() + at;
  int i = 0;
  for (; i + lanes <= half_; i += lanes) {
    const f32x16 a = load(in + i) * splat(scale);
    const f32x16 b = load(in + i + half_) * splat(scale);
    store(out + i, a * load(c + i) - b * load(s + i));
    store(out + i + half_, b * load(c + i) + a * load(s + i));
  }
  for (; i < half_; ++i) {
    const float a = in[i] * scale;
    const float b = in[i + half_] * scale;
    out[i] = a * c[i] - b * s[i];
    out[i + half_] = b * c[i] + a * s[i];
  }
}

}  // namespace engine

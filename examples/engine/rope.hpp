// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <engine/config.hpp>

namespace engine {

/// Rotary position embedding (Su et al., 2021) in the order of Hugging Face checkpoints: element i
/// turns with element i + head_dim / 2.
class rope {
 public:
  /// Tables for positions [0, context).
  rope(const rope_config& settings, int head_dim, int context);

  /// out[i] = in[i] at `position`, rotated and multiplied by `scale`; [head_dim] both.
  void rotate(const float* in, int position, float scale, float* out) const;

  /// [context, head_dim / 2] of each position and pair.
  const std::vector<float>& cosine() const { return cosine_; }
  const std::vector<float>& sine() const { return sine_; }

 private:
  int half_;
  std::vector<float> cosine_;
  std::vector<float> sine_;
};

}  // namespace engine

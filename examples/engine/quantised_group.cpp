// SPDX-License-Identifier: Apache-2.0
#include <engine/quantised_group.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <engine/bfloat16.hpp>

namespace engine {

namespace {

float nearest(float value, float scale) {
  return std::max(-8.0f, std::min(7.0f, std::nearbyint(value / scale)));
}

}  // namespace

quantised_group quantise(const float (&values)[group_size]) {
  float extreme = 0.0f;
  for (const float v : values) { extreme = std::fabs(v) > std::fabs(extreme) ? v : extreme; }
  quantised_group best;
  double least = std::numeric_limits<double>::infinity();
  for (const float largest : {-7.0f, -7.5f, -8.0f, -8.5f, -9.0f}) {
    const std::uint16_t tried = to_bf16(extreme / largest);
    const float scale = from_bf16(tried);
    if (scale == 0.0f) { break; }
    float difference[group_size];  // apart from their sum, so that this loop is vectorised
    for (int k = 0; k < group_size; ++k) {
      difference[k] = nearest(values[k], scale) * scale - values[k];
    }
    double error = 0.0;
    for (const float d : difference) { error += static_cast<double>(d) * static_cast<double>(d); }
    if (error < least) {
      least = error;
      best.scale = tried;
    }
  }
  if (best.scale == 0) { return best; }
  const float scale = from_bf16(best.scale);
  for (int k = 0; k < group_size; ++k) {
    best.values[k] = static_cast<std::int8_t>(nearest(values[k], scale));
  }
  return best;
}

}  // namespace engine

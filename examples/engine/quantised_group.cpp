// SPDX-License-Identifier: Apache-2.0
#include <engine/quantised_group.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <engine/bfloat16.hpp>

namespace engine {

quantised_group quantise(const float (&values)[group_size]) {
  float extreme = 0.0f;
  for (const float v : values) { extreme = std::fabs(v) > std::fabs(extreme) ? v : extreme; }
  quantised_group best;
  double least = std::numeric_limits<double>::infinity();
  for (const float largest : {-7.0f, -7.5f, -8.0f, -8.5f, -9.0f}) {
    quantised_group tried;
    tried.scale = to_bf16(extreme / largest);
    const float scale = from_bf16(tried.scale);
    if (scale == 0.0f) { return best; }
    double error = 0.0;
    for (int k = 0; k < group_size; ++k) {
      const float q = std::max(-8.0f, std::min(7.0f, std::nearbyint(values[k] / scale)));
      tried.values[k] = static_cast<std::int8_t>(q);
      const double difference = static_cast<double>(q * scale - values[k]);
      error += difference * difference;
    }
    if (error < least) {
      least = error;
      best = tried;
    }
  }
  return best;
}

}  // namespace engine

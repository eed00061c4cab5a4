// SPDX-License-Identifier: Apache-2.0
#include <engine/kv_cache.hpp>

#include <algorithm>

namespace engine {

kv_cache::kv_cache(const config& shape, int slots, int context, kv_layers own)
    : cached_{shape.layers, own.cached},
      staged_layers_{shape.layers, own.staged},
      kv_heads_{shape.kv_heads},
      head_dim_{shape.head_dim},
      padded_head_dim_{round_up(shape.head_dim, lanes)},
      positions_{round_up(context, lanes)},
      keys_{run(slots, 0, 0) * static_cast<std::size_t>(head_dim_)},
      values_{run(slots, 0, 0) * static_cast<std::size_t>(padded_head_dim_)},
      staged_(static_cast<std::size_t>(slots)) {}

void kv_cache::reserve_staged(int slot, int rows) {
  staged_[static_cast<std::size_t>(slot)].grow(static_cast<std::size_t>(rows) *
                                               static_cast<std::size_t>(staged_layers_.layers) * 2 *
                                               static_cast<std::size_t>(kv_heads_ * head_dim_));
}

void kv_cache::place(int slot, int layer, int head, int position, int row) {
  const float* const key = staged_keys(slot, layer, row) + head * head_dim_;
  const float* const value = staged_values(slot, layer, row) + head * head_dim_;
  float* const key_lane =
      keys_.data() + run(slot, layer, head) * static_cast<std::size_t>(head_dim_) +
      static_cast<std::size_t>(position / lanes * lanes) * static_cast<std::size_t>(head_dim_) +
      position % lanes;
  for (int d = 0; d < head_dim_; ++d) { key_lane[d * lanes] = key[d]; }
  std::copy_n(value, head_dim_,
              values_.data() + (run(slot, layer, head) + static_cast<std::size_t>(position)) *
                                   static_cast<std::size_t>(padded_head_dim_));
}

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/config.hpp>
#include <engine/simd.hpp>

namespace engine {

/// Of which keys and values every layer has room of its own. Where it has none, they live until the
/// next layer attends.
struct kv_layers {
  bool cached = true;
  bool staged = true;
};

/// Keys and values: of the cached positions, and of staged rows beside them.
///
/// Per slot, layer and key-value head, keys lie as [context / 16][head_dim][16], so that sixteen
/// dot products run in sixteen lanes, and values as [context][head_dim padded to 16].
///
/// The positions beyond the cached ones are free, and attention uses them: it copies the path
/// from the end of the cache to a row there (`place`), and then reads one contiguous run. What is
/// left there afterwards is never read as cache, so that discarding staged rows is nothing to do.
class kv_cache {
 public:
  kv_cache(const config& shape, int slots, int context, kv_layers own = {});

  int head_dim() const { return head_dim_; }
  int padded_head_dim() const { return padded_head_dim_; }

  /// Room for `rows` staged rows of a slot. Allocates when it was smaller.
  void reserve_staged(int slot, int rows);

  /// [kv_heads * head_dim] of a staged row of a layer.
  float* staged_keys(int slot, int layer, int row) { return staged(slot, layer, row, 0); }
  float* staged_values(int slot, int layer, int row) { return staged(slot, layer, row, 1); }

  /// Copies one head of a staged row to a position of the cache.
  void place(int slot, int layer, int head, int position, int row);

  const float* keys(int slot, int layer, int head) const {
    return keys_.data() + run(slot, layer, head) * static_cast<std::size_t>(head_dim_);
  }
  const float* values(int slot, int layer, int head) const {
    return values_.data() + run(slot, layer, head) * static_cast<std::size_t>(padded_head_dim_);
  }

 private:
  /// The number of positions before those of this head.
  std::size_t run(int slot, int layer, int head) const {
    return ((static_cast<std::size_t>(slot) * static_cast<std::size_t>(cached_.layers) +
             static_cast<std::size_t>(layer * cached_.step)) *
                static_cast<std::size_t>(kv_heads_) +
            static_cast<std::size_t>(head)) *
           static_cast<std::size_t>(positions_);
  }
  float* staged(int slot, int layer, int row, int which) {
    const std::size_t index =
        (static_cast<std::size_t>(row) * static_cast<std::size_t>(staged_layers_.layers) +
         static_cast<std::size_t>(layer * staged_layers_.step)) *
            2 +
        static_cast<std::size_t>(which);
    return staged_[static_cast<std::size_t>(slot)].data() +
           index * static_cast<std::size_t>(kv_heads_ * head_dim_);
  }

  /// Layers with room of their own, and how many of them lie between a layer's and the next one's.
  struct extent {
    int layers;
    int step;

    extent(int all, bool own) : layers{own ? all : 1}, step{own ? 1 : 0} {}
  };

  extent cached_;
  extent staged_layers_;
  int kv_heads_;
  int head_dim_;
  int padded_head_dim_;
  int positions_;  ///< the context, padded to 16
  aligned_buffer<float> keys_;
  aligned_buffer<float> values_;
  std::vector<aligned_buffer<float>> staged_;  ///< [slot] of [row][layer][key, value][kv_dim]
};

}  // namespace engine

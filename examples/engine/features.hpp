// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include <engine/aligned_buffer.hpp>

namespace engine {

/// The last hidden states of a model, kept beside its cache: of the cached positions, and of the
/// staged rows of each slot.
class features {
 public:
  /// Nothing is kept for a width of 0.
  features(int width, int slots, int context)
      : width_{static_cast<std::size_t>(width)},
        context_{static_cast<std::size_t>(context)},
        cached_(width_ * context_ * static_cast<std::size_t>(slots)),
        staged_(static_cast<std::size_t>(slots)) {}

  bool kept() const { return width_ > 0; }
  int width() const { return static_cast<int>(width_); }

  /// Room for `rows` staged rows of a slot. Allocates when it was smaller.
  void reserve_staged(int slot, int rows) {
    staged_[static_cast<std::size_t>(slot)].grow(width_ * static_cast<std::size_t>(rows));
  }

  /// [width] of a staged row.
  float* staged(int slot, int row) {
    return staged_[static_cast<std::size_t>(slot)].data() + width_ * static_cast<std::size_t>(row);
  }
  /// [width] of a cached position.
  float* cached(int slot, int position) {
    return cached_.data() + width_ * (context_ * static_cast<std::size_t>(slot) +
                                      static_cast<std::size_t>(position));
  }

  void keep(int slot, int position, int row) {
    std::memcpy(cached(slot, position), staged(slot, row), width_ * sizeof(float));
  }

 private:
  std::size_t width_;
  std::size_t context_;
  std::vector<float> cached_;
  std::vector<aligned_buffer<float>> staged_;
};

}  // namespace engine

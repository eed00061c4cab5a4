// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/diffusion/canvas/masked_model.hpp>

namespace hunch::diffusion {

/// A masked model made of one whose output row at a position is about the next position, as that of
/// a network that was an autoregressive one before, such as Dream (Ye et al. 2025,
/// arXiv:2508.15487). The inner model gives the row of every wanted position; those are the
/// positions before. With a block cache they begin one position before the block.
///
/// Host only. Allocates when a pass has more positions than any before it.
template <class Model>
class right_shifted {
  static_assert(MaskedModel<std::remove_cvref_t<Model>>,
                "hunch: the argument of diffusion::right_shifted must model "
                "hunch::diffusion::MaskedModel");

 public:
  static constexpr bool caches_blocks = BlockCachedModel<Model>;
  static constexpr bool reads_on_host = true;

  explicit right_shifted(Model&& model) : model_(std::forward<Model>(model)) {}

  std::int32_t vocab_size() { return static_cast<std::int32_t>(model_.vocab_size()); }
  token mask_token() { return static_cast<token>(model_.mask_token()); }
  std::int32_t max_positions() { return static_cast<std::int32_t>(model_.max_positions()); }
  void release(std::int32_t slot) noexcept { model_.release(slot); }

  auto evaluate(const canvases& asked) {
    const std::int32_t count = asked.first_wanted[asked.size];
    rows_.clear();
    for (std::int32_t i = 0; i < count; ++i) { rows_.push_back(asked.wanted[i] - 1); }
    canvases shifted = asked;
    shifted.wanted = rows_.data();
    return model_.evaluate(shifted);
  }

 private:
  Model model_;
  std::vector<std::int32_t> rows_;
};

template <class Model>
right_shifted(Model&&) -> right_shifted<Model>;

}  // namespace hunch::diffusion

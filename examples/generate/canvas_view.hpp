// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <engine/tokenizer.hpp>
#include <hunch/core/types.hpp>

#include "generate/terminal.hpp"

namespace generate {

/// Shows the answer of a canvas while it is unmasked. What comes before the first mask is text and
/// stays; on a terminal what is unmasked after it is shown too, with a sign in the place of each
/// mask, and drawn again in every round.
class canvas_view {
 public:
  canvas_view(const engine::tokenizer& text, terminal& out, hunch::token mask)
      : text_(&text), out_(&out), mask_(mask) {}

  /// \param answer as it is by now; origins[i] says where the token at i came from.
  void show(std::span<const hunch::token> answer, const std::vector<hunch::origin>& origins) {
    out_->take_back();
    for (; shown_ < answer.size() && answer[shown_] != mask_; ++shown_) {
      out_->write(text_->bytes(answer[shown_]), origins[shown_]);
    }
    if (out_->takes_back()) { preview(answer, origins); }
  }

 private:
  static constexpr std::size_t fewest = 8;  ///< positions that are shown, to see where it goes
  static constexpr std::size_t most = 16;   ///< that have room

  void preview(std::span<const hunch::token> answer, const std::vector<hunch::origin>& origins) {
    std::size_t end = answer.size();
    while (end > shown_ && answer[end - 1] == mask_) { --end; }
    end = std::clamp(end, shown_ + fewest, shown_ + most);
    for (std::size_t i = shown_; i < std::min(end, answer.size()); ++i) {
      if (answer[i] == mask_) {
        out_->preview("\u2591", hunch::origin::sampled);
      } else {
        out_->preview(text_->bytes(answer[i]), origins[i]);
      }
    }
  }

  const engine::tokenizer* text_;
  terminal* out_;
  hunch::token mask_;
  std::size_t shown_ = 0;
};

}  // namespace generate

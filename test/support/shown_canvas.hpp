// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include "toy_canvas.hpp"
#include "toy_model.hpp"

namespace hunch::test {

/// Drafts from what the target's passes have made: what it is shown is checked.
template <class Real>
struct shown_canvas : toy_masked<Real> {
  using base = toy_masked<Real>;
  using base::base;
  static constexpr bool reads_target = true;

  template <class Evaluation>
  void observe(const diffusion::decided_canvases& decided, const Evaluation&) noexcept {
    for (std::int32_t k = 0; k < decided.size; ++k) {
      const std::int32_t canvas = decided.kept[k];
      const auto tokens = decided.pass.canvas(canvas);
      seen_[decided.pass.slot[canvas]].assign(tokens.data, tokens.data + tokens.size);
    }
  }
  auto evaluate(const diffusion::canvases& asked) {
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const std::vector<token>& before = seen_[asked.slot[i]];
      require(static_cast<std::int32_t>(before.size()) == asked.canvas(i).size, "another canvas");
      std::int32_t differ = 0;
      for (std::int32_t p = 0; p < asked.canvas(i).size; ++p) {
        const token t = before[static_cast<std::size_t>(p)];
        differ += t == asked.canvas(i)[p] ? 0 : 1;
        require(t == this->mask_token() || t == asked.canvas(i)[p], "another text");
      }
      require(differ > 0, "the unmasking after the drafts is not there");
    }
    return base::evaluate(asked);
  }
  void release(std::int32_t slot) noexcept { seen_.erase(slot); }

 private:
  std::map<std::int32_t, std::vector<token>> seen_;
};

}  // namespace hunch::test

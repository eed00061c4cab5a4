// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <engine/block_cache.hpp>
#include <engine/canvas_plan.hpp>
#include <engine/masked_config.hpp>
#include <engine/sequences.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

namespace engine {

/// Plans passes over canvases under a block cache.
///
/// A canvas that opens a block is read whole, what is to be kept first: attention puts keys and
/// values in the order of the rows, so that those stand at the beginning of the slot's cache. Each
/// other canvas has rows of its own after them.
class block_planner {
 public:
  /// \param kept not `none`.
  block_planner(const masked_config& shape, int slots, int context, block_cache kept);

  /// The positions that are kept of a slot.
  int length(int slot) const { return slots_[static_cast<std::size_t>(slot)].kept; }

  /// Nothing that is kept changes before `keep`.
  /// \throws like `canvas_planner::plan`; std::invalid_argument also for a canvas whose block was
  ///         not opened, and for canvases beside one that opens its slot's.
  void plan(const hunch::diffusion::canvases& canvases, layer_span& span);

  /// Of the last pass. `parts` are of the slots whose blocks it opened, `canvases` are empty.
  const canvas_plan& planned() const { return plan_; }

  /// Notes that the slots of `planned().parts` are opened.
  void keep(const hunch::diffusion::canvases& canvases) noexcept;
  void release(int slot) noexcept { slots_[static_cast<std::size_t>(slot)] = {}; }

 private:
  struct opened_block {
    int kept = 0;  ///< positions; 0: none was opened
    int known = 0;
    int end = 0;
    int size = 0;  ///< of the canvas
  };

  void check_opened(const hunch::diffusion::canvases& canvases, std::int32_t i) const;
  void plan_canvas(const hunch::diffusion::canvases& canvases, std::int32_t i, layer_span& span);
  void order_positions(const opened_block& of, bool opens);

  canvas_planner checks_;
  block_cache cache_;
  int shift_;
  std::vector<opened_block> slots_;
  canvas_plan plan_;
  int first_row_ = 0;       ///< of the slot at hand
  std::vector<int> order_;  ///< positions of the canvas at hand, in the order of their rows
};

}  // namespace engine

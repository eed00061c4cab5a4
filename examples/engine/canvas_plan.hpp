// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <engine/masked_config.hpp>
#include <engine/sequences.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

/// \file
/// Which rows a pass over canvases must compute, and what is cached of each slot.

namespace engine {

/// Where the hidden state comes from that yields the logits of a wanted position.
struct canvas_output {
  int row = -1;  ///< of the pass; -1: the slot's last cached position
  int slot = 0;
};

/// Tokens that a pass reads after those that a slot has cached, and that are cached then.
struct cached_part {
  int slot = 0;
  int from = 0;    ///< positions that were cached and stay
  int to = 0;      ///< positions that are cached after the pass
  int row = 0;     ///< of the pass: that of position `from`
  int canvas = 0;  ///< whose tokens they are
};

/// The rows of a canvas after what is cached with the pass: of positions that follow each other.
struct canvas_span {
  int first = 0;  ///< position
  int begin = 0;  ///< in `canvas_plan::rows_of`
  int end = 0;
};

/// What a pass over canvases does.
struct canvas_plan {
  pass_plan rows;                      ///< without outputs
  std::vector<canvas_output> outputs;  ///< in the order of the wanted positions
  std::vector<cached_part> parts;
  std::vector<canvas_span> canvases;  ///< of each one; empty for those that are asked nothing
  std::vector<int> rows_of;           ///< rows of the pass, canvas by canvas
};

/// Plans passes over canvases.
///
/// In a causal prefix, positions have the keys and values of a cached one, or of a row of the
/// canvas before, where the tokens up to there are the same. All others have a row of their own.
class canvas_planner {
 public:
  canvas_planner(const masked_config& shape, int slots, int context);

  /// The positions that are cached of a slot.
  int length(int slot) const {
    return static_cast<int>(cached_[static_cast<std::size_t>(slot)].size());
  }

  /// \throws std::out_of_range for slots, tokens and positions outside their range,
  ///         std::invalid_argument for canvases that break the rules of `canvases`.
  void check(const hunch::diffusion::canvases& canvases);
  /// Nothing that is cached changes before `keep`. \throws like `check`.
  void plan(const hunch::diffusion::canvases& canvases, layer_span& span);

  /// Of the last pass.
  const canvas_plan& planned() const { return plan_; }

  /// Notes that what the last pass has read of a slot is cached.
  void keep(const hunch::diffusion::canvases& canvases, const cached_part& part) noexcept;
  void release(int slot) noexcept;
  /// The cache of a slot is overwritten from position `from` on.
  void overwritten(int slot, int from) noexcept;

 private:
  /// What is read of a canvas, and how.
  struct canvas {
    std::span<const hunch::token> tokens;
    std::span<const std::int32_t> wanted;
    int known = 0;      ///< positions before it are read causally
    int block_end = 0;  ///< after the first block with masks
  };

  void check_canvas(const hunch::diffusion::canvases& canvases, std::int32_t i) const;
  void find_first_block(int known, int block_end, canvas& of) const;
  canvas view(const hunch::diffusion::canvases& canvases, std::int32_t i) const;
  void plan_slot(const hunch::diffusion::canvases& canvases, std::int32_t begin, std::int32_t end,
                 layer_span& span);
  void add_rows(const canvas& of, int from, int to, int slot, layer_span& span);
  void add_outputs(const canvas& of, int slot);
  void note_rows(std::int32_t i, int cached);
  /// How many positions of `tokens` need not be read again.
  int reusable(int slot, std::span<const hunch::token> tokens) const;
  /// After the block of a position, and so after what its row sees.
  static int end_of_block(const canvas& of, int position);

  bool causal_prefix_;
  int shift_;  ///< 1 where the law of a position is in the output row before it
  int context_;
  int vocab_size_;
  hunch::token mask_token_;
  std::vector<std::vector<hunch::token>> cached_;
  canvas_plan plan_;
  std::uint64_t pass_ = 0;
  std::vector<std::uint64_t> last_pass_;
  std::vector<int> chain_;  ///< rows of the canvas at hand, from the first that is not cached
  int first_row_ = 0;       ///< of the slot at hand
  int first_position_ = 0;  ///< of `chain_`
  int seen_ = 0;            ///< how far the row before saw
};

}  // namespace engine

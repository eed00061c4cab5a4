// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/masked_model.hpp>
#include <engine/model.hpp>
#include <hunch/diffusion/masked_model.hpp>
#include <hunch/diffusion/model_drafts.hpp>

/// \file
/// A head that drafts for a masked model from its states, as EAGLE's does for a Llama: an example
/// of a `hunch::diffusion::ObservingModel`.

namespace engine {

/// Layers that read, of each position that was masked in the canvas that the target has decided,
/// the state that yielded its law there and the embedding of what is there now, a mask or what was
/// written since; their output yields the law that the target is expected to have now. A position
/// attends to those of its block and of the blocks before it. Nothing else is read, so that a pass
/// has a row for each of a block's or two blocks' positions, whatever the length of the text.
/// Embedding and language-model head are the target's. (After EAGLE, Li et al. 2024,
/// arXiv:2401.15077)
///
/// What it says of a slot depends on nothing but what was observed of it and the canvas. Movable;
/// one thread may use it at a time. After construction `observe` does not allocate, nor does
/// `evaluate` after its first passes of the largest size.
class canvas_head {
 public:
  static constexpr bool reads_target = true;

  /// \param weights of `shape`, "model.fc.weight" [hidden, 2 hidden] among them, which reads the
  ///        embedding, then the state.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if the
  ///         target's sizes are others.
  canvas_head(const config& shape, const checkpoint& weights, const masked_model& target,
              const model_options& options = {});
  canvas_head(canvas_head&&) noexcept;
  canvas_head& operator=(canvas_head&&) noexcept;
  ~canvas_head();

  /// Reads the directory of the head; embedding and head are those of `target_directory`.
  static canvas_head load(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, const masked_model& target,
                          const model_options& options = {});

  std::int32_t vocab_size() const;
  hunch::token mask_token() const { return mask_token_; }
  std::int32_t max_positions() const;
  std::size_t weight_bytes() const;

  /// Keeps the states of each slot's canvas that was decided, and nothing else of that slot.
  void observe(const hunch::diffusion::decided_canvases& decided,
               const masked_evaluation& evaluation) noexcept;

  /// \throws std::out_of_range for slots and tokens outside their range, std::invalid_argument for
  ///         a slot that comes twice or of which nothing was observed, and for positions that were
  ///         not wanted then; nothing has changed then.
  masked_evaluation evaluate(const hunch::diffusion::canvases& canvases);

  /// Drops what was observed of a slot.
  void release(std::int32_t slot) noexcept;

 private:
  /// What was observed of a slot: positions, ascending, and of each its block, counted from the
  /// first one, and its state.
  struct window {
    std::vector<int> positions;
    std::vector<int> blocks;
    aligned_buffer<float> states;  ///< [positions, hidden]
  };

  void plan(const hunch::diffusion::canvases& canvases);
  void plan_rows(const window& of, int slot, const hunch::token* tokens);
  void put_inputs();
  void finish(int thread);

  hunch::token mask_token_;
  std::unique_ptr<model::implementation> self_;
  std::vector<window> windows_;  ///< per slot
  std::vector<int> outputs_;     ///< rows of the wanted positions
};

static_assert(hunch::diffusion::ObservingModel<canvas_head, masked_evaluation>);

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/canvas_head_config.hpp>
#include <engine/canvas_plan.hpp>
#include <engine/checkpoint.hpp>
#include <engine/masked_model.hpp>
#include <engine/model.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>

/// \file
/// A head that drafts for a masked model from its residuals: an example of a
/// `hunch::diffusion::ObservingModel`.

namespace engine {

/// The last layer or layers of the target again, over the rows of the canvas that it has decided,
/// as more of its masks are unmasked. Rows begin with the residuals that they had in the target
/// before `target_layer`; those whose token has changed since begin with what a matrix makes of
/// that and of the embedding of the token, after a norm. Then follow layers of the head's own. A
/// row attends to what it attended to in the target: to the other rows, and before them to the keys
/// and values that the target has cached of the known text. So a pass has a row for each position
/// of a block or two, whatever the length of the text. Embedding and language-model head are the
/// target's. (What is reused is after EAGLE-3, Li et al. 2025, arXiv:2503.01840, and GliDe, Du et
/// al. 2024, arXiv:2402.02082)
///
/// `observe` reads what the target's last pass has left in it, and `evaluate` works in its cache:
/// it reads the known text there, and puts its own rows into the free positions after it. So the
/// target must live as long. If it has made another pass over a slot since it was observed, what
/// the head says of the slot is of no use, and the target forgets what it has cached there since;
/// its own logits never change. Else what the head says of a slot depends on nothing but what was
/// observed of it and the canvas. Movable; one thread may use head and target at a time. After
/// construction `observe` does not allocate, nor does `evaluate` after its first passes of the
/// largest size.
class canvas_head {
 public:
  static constexpr bool reads_target = true;
  static constexpr bool reads_on_host = true;

  /// \param weights of `shape`; also "model.fc.weight" [hidden, 2 hidden], which reads the
  ///        embedding, then the residual, and "model.embedding_norm.weight" [hidden].
  /// \param target keeps its residuals for this head as long as the head lives.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if the
  ///         target's sizes are others, it has not these layers, it caches nothing, or it keeps
  ///         other residuals for another head.
  canvas_head(const canvas_head_config& shape, const checkpoint& weights, masked_model& target,
              const model_options& options = {});
  canvas_head(canvas_head&&) noexcept;
  canvas_head& operator=(canvas_head&&) noexcept;
  ~canvas_head();

  /// Reads the directory of the head; embedding and head are those of `target_directory`.
  static canvas_head load(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, masked_model& target,
                          const model_options& options = {});

  std::int32_t vocab_size() const;
  hunch::token mask_token() const { return mask_token_; }
  std::int32_t max_positions() const;
  std::size_t weight_bytes() const;

  /// Keeps the residuals of each slot's canvas that was decided, and nothing else of that slot.
  void observe(const hunch::diffusion::decided_canvases& decided,
               const masked_evaluation& evaluation) noexcept;

  /// \throws std::out_of_range for slots and tokens outside their range, std::invalid_argument for
  ///         a slot that comes twice or of which nothing was observed, and for positions that were
  ///         not wanted then; nothing has changed then.
  masked_evaluation evaluate(const hunch::diffusion::canvases& canvases);

  /// Drops what was observed of a slot.
  void release(std::int32_t slot) noexcept;

 private:
  /// The rows of a slot's canvas that was decided: of positions that follow each other.
  struct window {
    /// A row of the target.
    struct row {
      hunch::token token = 0;
      int length = 0;  ///< positions attended to
    };

    int first = 0;  ///< position; those before it are in the target's cache
    std::vector<row> rows;
    std::vector<std::int32_t> wanted;  ///< positions
    aligned_buffer<float> residuals;   ///< [rows, hidden]
    /// The state of the first position, if it comes from the row before it, which stays as it is.
    aligned_buffer<float> state;
  };

  /// A target that keeps its residuals for a head, until this ends.
  struct kept_for_head {
    void operator()(model::implementation* target) const noexcept;
  };

  void plan(const hunch::diffusion::canvases& canvases);
  void check(const hunch::diffusion::canvases& canvases, std::int32_t i) const;
  void plan_rows(int slot, const hunch::token* tokens, hunch::row_view<const std::int32_t> wanted);
  void put_inputs();
  void finish(int thread);
  const window& of(int slot) const { return windows_[static_cast<std::size_t>(slot)]; }

  hunch::token mask_token_;
  int shift_;  ///< 1 where the law of a position is in the row before it
  std::unique_ptr<model::implementation, kept_for_head> target_;
  canvas_planner* planner_;
  std::unique_ptr<model::implementation> self_;
  std::vector<float> embedding_norm_;
  std::vector<window> windows_;         ///< per slot
  std::vector<canvas_output> outputs_;  ///< of the wanted positions; row -1: the window's state
};

static_assert(hunch::diffusion::ObservingModel<canvas_head, masked_evaluation>);

}  // namespace engine

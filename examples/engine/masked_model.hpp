// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <engine/aligned_buffer.hpp>
#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <engine/model.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/model/rows.hpp>

/// \file
/// A masked diffusion language model on the CPU: an example of a `hunch::diffusion::MaskedModel`.

namespace engine {

struct pass_result;

/// What a pass over canvases computed. A view: valid until the model's next pass.
class masked_evaluation {
 public:
  masked_evaluation(const pass_result& result, std::int32_t size) : result_{&result}, size_{size} {}

  /// The number of wanted positions of the pass.
  std::int32_t size() const { return size_; }
  /// [vocab_size] the logits for wanted position i, in token order; may be written.
  /// \throws std::out_of_range if there is none.
  hunch::row_view<float> logits(std::int32_t i) const;
  /// [hidden] the state that yields them. \throws std::out_of_range if there is none.
  hunch::row_view<const float> hidden(std::int32_t i) const;

 private:
  void check(std::int32_t i) const;

  const pass_result* result_;
  std::int32_t size_;
};

class canvas_head;
class canvas_planner;

/// A Llama that fills masks, with its weights, caches and threads. Movable; one thread may use it
/// at a time. What a position of a canvas sees, by `masked_config::attention`:
///
/// - `full`: every position of the canvas. Nothing is kept between passes.
/// - `causal_prefix`: a position before the first block with masks sees those before it and itself,
///   as in a Llama, so that its keys and values stay what they are when more of the text is
///   written; they are cached. From there on a position sees all positions before the end of its
///   block. Blocks have the length of the canvas's, [known, block_end); where a draft has filled
///   it, the first block with masks is one after it. (As in Block Diffusion, Arriola et al. 2025,
///   arXiv:2503.09573, but for drafts after a block's end)
///
/// The law of a position comes from the row that `masked_config::shifted` says, so that the model
/// is not to be wrapped in `hunch::diffusion::right_shifted`.
///
/// The logits are a function of a canvas and the position: bitwise the same in any batch, with any
/// number of threads, and whatever is cached. What all canvases of a slot have before their
/// first masked block and is not cached yet is read in the same pass, once; so is what some of them
/// have beyond that, where it is the same. Blocks after the last one that is asked for are not
/// computed. Another text in a slot needs no `release`: what is cached is compared with what is
/// asked for.
///
/// After the first passes of the largest size nothing is allocated. A `canvas_head` reads of it
/// what it caches, and the residuals of its last pass.
class masked_model {
 public:
  static constexpr bool reads_on_host = true;

  /// \throws std::runtime_error naming the tensor of `weights` that does not fit `shape`;
  ///         std::invalid_argument for options out of range, `keep_features` among them.
  masked_model(const masked_config& shape, const checkpoint& weights,
               const model_options& options = {});
  masked_model(masked_model&&) noexcept;
  masked_model& operator=(masked_model&&) noexcept;
  ~masked_model();

  /// Reads `config.json` and the safetensors files of a Hugging Face directory; see
  /// `read_masked_config`.
  /// \throws std::runtime_error naming the file, and the key or the tensor, that is at fault.
  static masked_model load(const std::filesystem::path& directory,
                           const model_options& options = {});

  const masked_config& shape() const { return shape_; }
  std::int32_t vocab_size() const { return shape_.model.vocab_size; }
  hunch::token mask_token() const { return shape_.mask_token; }
  /// The context.
  std::int32_t max_positions() const;
  int max_batch() const;
  /// Cached positions of a slot.
  int length(int slot) const;
  /// The bytes of weights that a pass over one row reads.
  std::size_t weight_bytes() const;
  /// Rows times layers that were computed so far.
  std::uint64_t layer_rows() const;

  /// One pass over the canvases: the logits of the wanted positions.
  /// \throws std::out_of_range for slots, tokens and wanted positions outside their range,
  ///         std::invalid_argument for canvases that are longer than the context or break the rules
  ///         of `canvases`, and, where the law of a position is in the row before it, for those of
  ///         which nothing is known; nothing has changed then.
  masked_evaluation evaluate(const hunch::diffusion::canvases& canvases);

  /// Drops what is cached of a slot.
  void release(std::int32_t slot) noexcept;

 private:
  friend class canvas_head;

  void keep(const hunch::diffusion::canvases& canvases) noexcept;
  float* last_state(int slot);

  masked_config shape_;
  std::unique_ptr<model::implementation> self_;
  std::unique_ptr<canvas_planner> planner_;
  aligned_buffer<float> last_states_;  ///< [slots, hidden_stride] of the last cached positions
};

static_assert(hunch::diffusion::MaskedModel<masked_model>);

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include <engine/aligned_buffer.hpp>
#include <engine/block_cache.hpp>
#include <engine/checkpoint.hpp>
#include <engine/masked_config.hpp>
#include <engine/masked_model.hpp>
#include <engine/model.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

namespace engine {

class block_planner;

/// A masked model whose rows see the whole canvas, as those of LLaDA and Dream do, with a cache
/// that is filled when a block is begun and goes stale while it is unmasked: an approximation of
/// the model, and a `hunch::diffusion::BlockCachedModel`. What a decoder writes with it is what it
/// writes one token a pass with it, and not what it writes with `masked_model`.
///
/// Where the law of a position comes from the row before it, that of a block's first position is
/// the one with which the block was begun.
///
/// Logits are bitwise the same in any batch and with any number of threads.
class block_cached_model {
 public:
  static constexpr bool caches_blocks = true;
  static constexpr bool reads_on_host = true;

  /// \throws like `masked_model`; std::invalid_argument for a model that reads known text causally,
  ///         which needs no approximation, and for `block_cache::none`.
  block_cached_model(const masked_config& shape, const checkpoint& weights, block_cache kept,
                     const model_options& options = {});
  block_cached_model(block_cached_model&&) noexcept;
  block_cached_model& operator=(block_cached_model&&) noexcept;
  ~block_cached_model();

  /// Reads `config.json` and the safetensors files of a Hugging Face directory; see
  /// `read_masked_config`. \throws like `masked_model::load`.
  static block_cached_model load(const std::filesystem::path& directory, block_cache kept,
                                 const model_options& options = {});

  const masked_config& shape() const { return shape_; }
  std::int32_t vocab_size() const { return shape_.model.vocab_size; }
  hunch::token mask_token() const { return shape_.mask_token; }
  std::int32_t max_positions() const;
  int max_batch() const;
  /// Positions of a slot whose keys and values are kept.
  int length(int slot) const;
  std::size_t weight_bytes() const;
  /// Rows times layers that were computed so far.
  std::uint64_t layer_rows() const;

  /// One pass over the canvases: the logits of the wanted positions.
  /// \throws like `masked_model::evaluate`, and like `block_planner::plan`; nothing has changed
  /// then.
  masked_evaluation evaluate(const hunch::diffusion::canvases& canvases);

  /// Drops what is kept of a slot.
  void release(std::int32_t slot) noexcept;

 private:
  void keep(const hunch::diffusion::canvases& canvases) noexcept;
  float* last_state(int slot);

  masked_config shape_;
  std::unique_ptr<model::implementation> self_;
  std::unique_ptr<block_planner> planner_;
  aligned_buffer<float> last_states_;  ///< [slots, hidden_stride] of the positions before blocks
};

static_assert(hunch::diffusion::BlockCachedModel<block_cached_model>);

}  // namespace engine

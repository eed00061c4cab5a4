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
#include <engine/model.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// The first layers of a target, which outlives it, as a draft model: after them a norm, a small
/// map h + up silu(down h), and the target's head (as LayerSkip, Elhoushi et al. 2024,
/// arXiv:2404.16710, with an exit of its own). Threads and arithmetic are the target's.
///
/// It reads into the target's cache. What it has computed of a row the target takes over, when it
/// evaluates in the same step a row of the same position, token and ancestors: it goes on after
/// the last layer of the view. Its logits are bitwise those that it would have computed alone.
class early_exit {
 public:
  static constexpr bool shares_target_cache = true;

  /// \param weights "exit.norm.weight" [hidden], "exit.down.weight" [r, hidden], "exit.up.weight"
  ///        [hidden, r] for any r.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument if the
  ///         target does not have more layers than the view, or is not a whole model.
  early_exit(const exit_config& shape, const checkpoint& weights, model& target);
  early_exit(early_exit&&) noexcept;
  early_exit& operator=(early_exit&&) noexcept;
  ~early_exit();

  /// Reads `config.json` and the safetensors files of a directory.
  static early_exit load(const std::filesystem::path& directory, model& target);

  std::int32_t vocab_size() const;
  /// The hidden size.
  std::int32_t context_width() const;
  /// How many of the target's layers it runs.
  int layers() const { return layers_; }

  /// One pass over rows after the target's cached tokens. The target's next `evaluate` of the
  /// sequence ends the view's step. Throws like `model::evaluate`.
  hidden_states forward(const hunch::rows& rows);

  /// The order of the target's head over shortlists: one for all that draft with it.
  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;

  /// Writes the logits of the listed rows over their shortlists. Throws like `model::head`.
  void head(const hidden_states& states, const hunch::head_rows<float>& rows);

  /// Nothing: the cache is the target's.
  void commit(const hunch::kept_rows&) noexcept {}

 private:
  void finish(int thread);

  int layers_;
  model::implementation* of_;
  std::vector<float> norm_;
  stored_matrix down_;
  stored_matrix up_;
  int inner_stride_;
  aligned_buffer<float> inner_;  ///< [rows, r]
  std::unique_ptr<pass_result> result_;
};

static_assert(hunch::DraftModel<early_exit, float>);
static_assert(hunch::RoutedModel<early_exit>);
static_assert(hunch::shares_target_cache<early_exit>);

}  // namespace engine

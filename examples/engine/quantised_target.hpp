// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include <engine/checkpoint.hpp>
#include <engine/model.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// The weights of a target, which outlives it, in fewer bits, as a draft model (self-speculation by
/// quantisation: Tiwari et al. 2025, arXiv:2502.10424). It has threads of its own.
///
/// It reads the target's cache, whose keys and values are those of the whole weights, and stages
/// its rows there. So it has no prompt to read, nor anything that it has missed. When the target
/// evaluates the same rows it computes them anew, in the same places.
class quantised_target {
 public:
  static constexpr bool shares_target_cache = true;
  /// It reads what the target has made of the tokens before: after it, therefore. What it would
  /// read of a prompt in the same step the target would not take over.
  static constexpr bool rereads_accepted = true;

  /// \param weights of `target`. \throws std::invalid_argument for a target that is itself a head
  ///        of another model, std::runtime_error if the weights do not fit its shape, or their head
  ///        is another one.
  quantised_target(const checkpoint& weights, model& target, arithmetic kind = arithmetic::int4,
                   int threads = 1);
  quantised_target(quantised_target&&) noexcept;
  quantised_target& operator=(quantised_target&&) noexcept;
  ~quantised_target();

  /// Reads the directory that the target was loaded from.
  static quantised_target load(const std::filesystem::path& directory, model& target,
                               arithmetic kind = arithmetic::int4, int threads = 1);

  std::int32_t vocab_size() const;
  /// The hidden size: routers read what the head reads.
  std::int32_t context_width() const;
  /// The bytes of weights that a draft step of one row reads.
  std::size_t weight_bytes() const;

  /// One pass over rows after the target's cached tokens. The target's next `evaluate` of the
  /// sequence ends the step. Throws like `model::forward`.
  hidden_states forward(const hunch::rows& rows);

  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;

  /// Writes the logits of the listed rows over their shortlists. Throws like `model::head`.
  void head(const hidden_states& states, const hunch::head_rows<float>& rows);

  /// Nothing: the cache is the target's.
  void commit(const hunch::kept_rows&) noexcept {}

 private:
  model copy_;
};

static_assert(hunch::DraftModel<quantised_target, float>);
static_assert(hunch::RoutedModel<quantised_target>);
static_assert(hunch::shares_target_cache<quantised_target>);

}  // namespace engine

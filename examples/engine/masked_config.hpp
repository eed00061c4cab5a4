// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <engine/config.hpp>
#include <hunch/core/types.hpp>

namespace engine {

/// The shape of a masked diffusion model.
struct masked_config {
  /// What the rows of a canvas see.
  enum class attention {
    full,           ///< every row of the canvas
    causal_prefix,  ///< see `masked_model`
  };

  config model;
  hunch::token mask_token = 0;  ///< in [0, rows of the embedding)
  attention pattern = attention::full;
  int block_length = 0;  ///< that it was trained for; 0: any
  bool shifted = false;  ///< the law of a position is in the output row before it

  /// \throws std::invalid_argument naming the first field that makes no model.
  void check() const;
};

/// Reads a Hugging Face `config.json` of a LLaDAModelLM (LLaDA, Nie et al. 2025, arXiv:2502.09992),
/// a DreamModel (Dream, Ye et al. 2025, arXiv:2508.15487) or a HunchMaskedLlama. The last has the
/// fields of a LlamaForCausalLM, "mask_token_id", "attention" ("full" or "causal_prefix"),
/// "shifted" and "block_length".
/// \throws std::runtime_error naming the file and the key for anything missing, malformed, or not
///         supported.
masked_config read_masked_config(const std::filesystem::path& file);

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>

namespace engine {

/// The directory of an EAGLE head: this project's own, EAGLE-1 and -2 (Li et al. 2024,
/// arXiv:2401.15077, 2406.16858) and EAGLE-3 (Li et al. 2025, arXiv:2503.01840) in their authors'
/// files, EAGLE-3 and multi-token prediction (DeepSeek-AI 2024, arXiv:2412.19437) in those of
/// `speculators`. Tensors have the names of a model's: "model.fc.weight", "model.layers.0. ...";
/// norms of embeddings and states are "model.embedding_norm.weight" and "model.state_norm.weight".
struct eagle_files {
  config shape;
  checkpoint weights;
  std::vector<int> feature_layers;  ///< `model_options::feature_layers` of its target

  /// Reads them; what a head has not of its own, embedding and language-model head, from the
  /// directory of the target.
  /// \throws std::runtime_error naming the file and the key or the tensor that is at fault, and
  /// what the
  ///         directory looks like where it is no EAGLE head.
  static eagle_files open(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, const config& target);
  /// Their `feature_layers`, for a target that is not loaded yet.
  static std::vector<int> feature_layers_of(const std::filesystem::path& directory,
                                            const std::filesystem::path& target_directory);
};

}  // namespace engine

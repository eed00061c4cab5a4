// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/masked_config.hpp>
#include <engine/named_model.hpp>

namespace engine {

/// A Llama's config, and what a head takes from the masked model that it drafts for.
struct canvas_head_config {
  config model;
  /// The target's layer before which residuals are taken.
  int target_layer = 0;
  /// [model.layers] the target's layer whose keys and values of the known text a layer reads.
  std::vector<int> cached_layers;

  /// \throws std::invalid_argument naming the first field that makes no head.
  void check() const;
};

/// Reads a `config.json` of a Llama with "target_layer" and "cached_layers".
/// \throws std::runtime_error naming the file and the key.
canvas_head_config read_canvas_head_config(const std::filesystem::path& file);

/// What a head takes from a masked model fits it, and its weights have what makes its inputs.
/// \param model of `target`.
/// \throws std::invalid_argument naming both models and what differs, or the first field that makes
///         no head; std::runtime_error naming the tensor that is missing.
void check_canvas_head(const canvas_head_config& shape, const checkpoint& weights,
                       const named_model& model, const masked_config& target);

}  // namespace engine

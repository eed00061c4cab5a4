// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include <engine/checkpoint.hpp>

namespace engine {

/// The formats in which models and draft heads are published, by the names of their tensors.
enum class published_format {
  model,        ///< "model.layers.0. ...": a whole model, as `transformers` saves it
  eagle,        ///< "fc", "layers.0. ...": EAGLE-1 and -2
  eagle3,       ///< "fc", "midlayer. ..." or "layers.0.hidden_norm": EAGLE-3
  mtp,          ///< "mtp_layers.0. ...": multi-token prediction, of `speculators`
  medusa,       ///< "0.0.linear", "0.1", ...: Medusa
  own_eagle,    ///< "model.fc", "model.layers.0. ...": an EAGLE head of this project
  own_medusa,   ///< "medusa.0": Medusa heads of this project
  own_exit,     ///< "exit.down"
  own_streams,  ///< "streams.down"
};

/// Nothing if it looks like none of them.
std::optional<published_format> format_of(const checkpoint& source);

/// In words, for messages: what it looks like, or that it looks like nothing known.
std::string words_for(std::optional<published_format> format);

/// For a directory that looks like nothing known: what its tensors and its config are called.
std::string words_for_unknown(const std::filesystem::path& directory, const checkpoint& source);

/// That the file of a draft head has nothing but what is read, and what heads carry along: the
/// target's embedding and language-model head, tables of their vocabulary, frequencies of
/// rotations.
/// \param read the names of the tensors that are, without those of scales.
/// \throws std::runtime_error naming the file, the tensor and the format.
void refuse_unread(const checkpoint& source, std::set<std::string> read, published_format format);

}  // namespace engine

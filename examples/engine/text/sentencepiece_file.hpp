// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include <engine/text/loaded_tokenizer.hpp>

namespace engine::text {

/// A `tokenizer.model` of SentencePiece. \throws std::runtime_error naming the file.
std::unique_ptr<loaded_tokenizer> load_sentencepiece(const std::filesystem::path& file);

}  // namespace engine::text

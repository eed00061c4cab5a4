// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include <engine/text/loaded_tokenizer.hpp>

namespace engine::text {

/// A `vocab.json` with its `merges.txt`, as GPT-2 has them, by the rules of the "tokenizer_class"
/// that the `tokenizer_config.json` beside them names: GPT2Tokenizer, Qwen2Tokenizer or
/// DreamTokenizer. Added tokens are those of its "added_tokens_decoder", and of an
/// `added_tokens.json`.
/// \param vocabulary  the `vocab.json`
/// \throws std::runtime_error naming the file, the field and what is supported.
std::unique_ptr<loaded_tokenizer> load_vocabulary_and_merges(
    const std::filesystem::path& vocabulary);

}  // namespace engine::text

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include <engine/text/loaded_tokenizer.hpp>

namespace engine::text {

/// Of a file of a tokenizer: larger ones are refused.
inline constexpr std::uintmax_t max_tokenizer_bytes = std::uintmax_t{1} << 27;

/// A `tokenizer.json`, as the library `tokenizers` of Hugging Face writes them. BPE and Unigram
/// models. What it names as its beginning and end of text and as its mask is in the
/// `tokenizer_config.json` or, if there is none, the `config.json` beside it.
/// \throws std::runtime_error naming the file, the field and what is supported.
std::unique_ptr<loaded_tokenizer> load_tokenizer_json(const std::filesystem::path& file);

/// The same of what such a file would hold. \param file  where it comes from
std::unique_ptr<loaded_tokenizer> tokenizer_of_json(const nlohmann::json& values,
                                                    const std::filesystem::path& file);

}  // namespace engine::text

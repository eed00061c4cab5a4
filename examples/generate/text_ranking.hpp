// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/tokenizer.hpp>
#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace generate {

/// The text files that a path names: itself, or the .txt files of a folder, in the order of their
/// names. \throws command_line::usage_error naming the flag if there are none.
std::vector<std::filesystem::path> text_files(const std::string& flag, const std::string& path);

/// Tokens that a shortlist must have whatever the text is: without what ends a text and what is a
/// single byte, some texts could not be drafted at all.
/// \param ends tokens that end a text besides the tokenizer's.
std::vector<hunch::token> always_ranked(const engine::tokenizer& text,
                                        const std::vector<int>& ends = {});

/// All tokens by how often they are in texts, `bytes_of_each` bytes of each at most, those of
/// `always_ranked` first.
/// \throws std::runtime_error for a file that cannot be read.
hunch::vocab_layout ranking_of(const std::vector<std::filesystem::path>& files,
                               std::size_t bytes_of_each, const engine::tokenizer& text,
                               std::int32_t vocab_size, const std::vector<int>& ends = {});

}  // namespace generate

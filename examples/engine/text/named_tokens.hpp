// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <hunch/core/types.hpp>

namespace engine::text {

/// The tokens that have a part to play, each `hunch::no_token` if a tokenizer has none.
struct named_tokens {
  hunch::token bos = hunch::no_token;
  hunch::token eos = hunch::no_token;
  hunch::token mask = hunch::no_token;
};

/// Reads "bos_token", "eos_token" and "mask_token" of the `tokenizer_config.json` in a directory;
/// what that does not name, "bos_token_id", "eos_token_id" (the first of several) and
/// "mask_token_id" of the `config.json`. Files that are not there say nothing.
/// \param pieces  what each token is called
/// \throws std::runtime_error naming the file and the field for one that is no token.
named_tokens read_named_tokens(const std::filesystem::path& directory,
                               const std::vector<std::string>& pieces);

}  // namespace engine::text

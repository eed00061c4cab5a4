// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <hunch/core/types.hpp>

namespace engine::text {

/// A tokenizer as one kind of file describes it, behind `engine::tokenizer`.
class loaded_tokenizer {
 public:
  loaded_tokenizer() = default;
  loaded_tokenizer(const loaded_tokenizer&) = delete;
  loaded_tokenizer& operator=(const loaded_tokenizer&) = delete;
  virtual ~loaded_tokenizer() = default;

  /// See `engine::tokenizer::encode`.
  virtual std::vector<hunch::token> encode(std::string_view text, bool add_bos) const = 0;

  std::filesystem::path file;
  std::vector<std::string> pieces;  ///< by token: what the file calls it; "" for no token
  std::vector<std::string> bytes;   ///< by token: see `engine::tokenizer::bytes`
  hunch::token bos = hunch::no_token;
  hunch::token eos = hunch::no_token;
  hunch::token mask = hunch::no_token;
  bool drops_first_space = false;  ///< of a text, when it is decoded
};

}  // namespace engine::text

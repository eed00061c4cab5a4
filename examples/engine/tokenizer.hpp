// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <hunch/core/types.hpp>

namespace engine {

/// A SentencePiece `tokenizer.model`.
class tokenizer {
 public:
  /// `source` is the file, or a directory that has a `tokenizer.model`.
  /// \throws std::runtime_error naming the file when it cannot be read.
  explicit tokenizer(const std::filesystem::path& source);
  tokenizer(tokenizer&&) noexcept;
  tokenizer& operator=(tokenizer&&) noexcept;
  ~tokenizer();

  int vocab_size() const;
  /// `hunch::vocabulary_fingerprint` of its pieces.
  std::uint64_t fingerprint() const { return fingerprint_; }
  hunch::token bos() const;  ///< beginning of text, or `hunch::no_token`
  hunch::token eos() const;  ///< end of text, or `hunch::no_token`

  /// The tokens of `text`, after the beginning-of-text token if `add_bos`.
  std::vector<hunch::token> encode(std::string_view text, bool add_bos = true) const;

  /// The text of `tokens`: their bytes, less the space that encoding puts before the first word.
  std::string decode(const std::vector<hunch::token>& tokens) const;

  /// The bytes that one token adds to the text: U+2581 is a space, a byte token its byte, control
  /// tokens nothing. Bytes of consecutive tokens concatenate; a single token may hold only a part
  /// of a character. Ids outside the vocabulary add nothing.
  const std::string& bytes(hunch::token t) const;

 private:
  struct implementation;
  std::unique_ptr<implementation> self_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace engine

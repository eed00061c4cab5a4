// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hunch/core/types.hpp>

namespace engine {

namespace text {
class loaded_tokenizer;
}

/// The tokenizer that a model was published with: a `tokenizer.json` of Hugging Face, a
/// `tokenizer.model` of SentencePiece, or a `vocab.json` with its `merges.txt`.
class tokenizer {
 public:
  /// `source` is the file, or a directory that has one of those; of several, the first in this
  /// order.
  /// \throws std::runtime_error naming the file when it cannot be read; and, for what a
  ///         `tokenizer.json` asks for and is not supported, the field and what is.
  explicit tokenizer(const std::filesystem::path& source);
  tokenizer(tokenizer&&) noexcept;
  tokenizer& operator=(tokenizer&&) noexcept;
  ~tokenizer();

  /// The file of a directory, if it has one.
  static std::optional<std::filesystem::path> file_in(const std::filesystem::path& directory);

  /// What it was read from.
  const std::filesystem::path& file() const;
  /// One more than the largest id.
  int vocab_size() const;
  /// `hunch::vocabulary_fingerprint` of its pieces, in whichever kind of file they are.
  std::uint64_t fingerprint() const { return fingerprint_; }
  hunch::token bos() const;   ///< beginning of text, or `hunch::no_token`
  hunch::token eos() const;   ///< end of text, or `hunch::no_token`
  hunch::token mask() const;  ///< of a masked model, or `hunch::no_token` if the files do not say

  /// The tokens of `text`; if `add_bos`, after those that its file puts in front of every text:
  /// the beginning-of-text token for a `tokenizer.model`, what its template says for a
  /// `tokenizer.json`. What a template puts after a text is left out. Of a `tokenizer.json`, added
  /// tokens are found in the text, and what is no UTF-8 there is U+FFFD.
  std::vector<hunch::token> encode(std::string_view text, bool add_bos = true) const;

  /// The text of `tokens`: their bytes, less the space that encoding puts before the first word.
  std::string decode(const std::vector<hunch::token>& tokens) const;

  /// The bytes that one token adds to the text: U+2581 is a space, a byte token its byte, control
  /// and special tokens nothing. Bytes of consecutive tokens concatenate; a single token may hold
  /// only a part of a character (`text::take_characters` waits for the rest). Ids outside the
  /// vocabulary add nothing.
  const std::string& bytes(hunch::token t) const;

 private:
  std::unique_ptr<text::loaded_tokenizer> self_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace engine

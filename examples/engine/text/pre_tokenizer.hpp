// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <engine/config_object.hpp>
#include <engine/text/pieces.hpp>

namespace engine::text {

/// Cuts a text into pieces that tokens do not reach across: the "pre_tokenizer" of a
/// `tokenizer.json`. ByteLevel, Split, Digits, Punctuation, Metaspace, and Sequences of them.
class pre_tokenizer {
 public:
  /// Of a file that has none: the text is one piece.
  pre_tokenizer() = default;
  /// \throws std::runtime_error naming the field and what is supported.
  explicit pre_tokenizer(const config_object& described);

  void operator()(pieces& of) const;

 private:
  std::vector<std::function<void(pieces&)>> steps_;
};

}  // namespace engine::text

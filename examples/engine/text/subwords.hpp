// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <engine/text/pieces.hpp>
#include <hunch/core/types.hpp>

namespace engine::text {

/// The tokens of a model: what each is spelled, and back. An id may have none.
class spellings {
 public:
  spellings() = default;
  /// \param by_token none twice, but the empty one
  explicit spellings(std::vector<std::string> by_token);
  spellings(spellings&&) = default;
  spellings& operator=(spellings&&) = default;

  const std::vector<std::string>& by_token() const { return by_token_; }
  /// `hunch::no_token` for none.
  hunch::token of(std::string_view spelling) const;
  /// The token of a byte that has no other, "<0x0A>"; `hunch::no_token` for none.
  hunch::token of_byte(unsigned char byte) const;

 private:
  std::vector<std::string> by_token_;
  std::unordered_map<std::string_view, hunch::token> tokens_;  ///< views of `by_token_`
};

/// Makes tokens of pieces: the "model" of a `tokenizer.json`.
class subwords {
 public:
  virtual ~subwords() = default;
  /// Adds the tokens of all pieces to `out`.
  virtual void encode(const pieces& of, std::vector<hunch::token>& out) const = 0;
  virtual const spellings& spelled() const = 0;
};

}  // namespace engine::text

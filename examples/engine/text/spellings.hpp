// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

/// Whether a vocabulary of so many tokens may have this number: it has few gaps, so that an array
/// by number is not much larger than the file.
bool is_dense(std::size_t number, std::size_t tokens);

}  // namespace engine::text

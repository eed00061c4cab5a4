// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <engine/text/range.hpp>
#include <hunch/core/types.hpp>

namespace engine::text {

/// A token that stands in a text as it is, whatever is around it.
struct added_token {
  std::string content;
  hunch::token id = hunch::no_token;
  bool takes_left = false;   ///< with the white space in front of it
  bool takes_right = false;  ///< and after it
};

/// Finds added tokens in a text: from left to right, the longest one wherever one begins.
class added_tokens {
 public:
  added_tokens() = default;
  /// One without content is never found.
  explicit added_tokens(std::vector<added_token> all);

  struct part {
    range at;
    hunch::token id = hunch::no_token;  ///< of an added token; else what is between them
  };
  /// All of the text.
  std::vector<part> parts(std::string_view text) const;

 private:
  const added_token* at(std::string_view rest) const;

  std::array<std::vector<added_token>, 256> by_first_byte_;  ///< the longest first
};

}  // namespace engine::text

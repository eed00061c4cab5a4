// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// \file
/// UTF-8 that may be broken, or cut off where a text goes on.

namespace engine::text {

/// Stands for what is no character: U+FFFD.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

struct character {
  enum class state {
    whole,
    cut,    ///< the text ends inside of it
    broken  ///< no character begins like this
  };

  char32_t code = 0;  ///< of one that is whole
  std::size_t bytes = 0;
  state is = state::whole;
};

/// What a text begins with. Of what is broken, the longest part that begins like a character, so
/// that replacing each by U+FFFD is what the Unicode standard recommends (section 3.9), and what
/// Python's `bytes.decode(errors="replace")` does. \param text not empty
character first_character(std::string_view text);

/// What `code` is in UTF-8. \param code a scalar value
std::string encoded(char32_t code);

/// Takes the characters off the front of `held` that are whole there, each part that is broken
/// replaced. A character that is cut off stays, for what comes after it.
std::string take_characters(std::string& held);

/// The text with every part that is broken or cut off replaced.
std::string well_formed(std::string_view text);

/// Whether the Unicode property White_Space is set.
bool is_white_space(char32_t code);

}  // namespace engine::text

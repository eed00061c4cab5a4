// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <engine/text/range.hpp>

namespace engine::text {

/// What a text is searched for: a regular expression, or these characters.
class pattern {
 public:
  /// \param expression as `tokenizer.json` has them, in the syntax of Oniguruma. PCRE2 matches it:
  /// what the two take for different things is written in another way, or refused. Classes and
  /// properties are those of its Unicode: 14 in PCRE2 10.40 to 10.42.
  /// \throws std::invalid_argument saying what is not supported, or wrong.
  static pattern expression(std::string_view expression);
  static pattern literal(std::string text);

  /// Where it matches, from left to right, without overlaps.
  /// \param text well-formed UTF-8
  /// \throws std::runtime_error if matching takes more than PCRE2 allows.
  std::vector<range> matches(std::string_view text) const;
  /// The text with `by` in the place of every match.
  std::string replaced(std::string_view text, std::string_view by) const;

 private:
  pattern() = default;

  std::string literal_;
  std::shared_ptr<const void> code_;  ///< of PCRE2; nullptr: `literal_`
};

}  // namespace engine::text

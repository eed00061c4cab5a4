// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <hunch/core/types.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// Writes text to standard output as it comes, coloured by where each token came from.
class terminal {
 public:
  explicit terminal(color_mode mode);

  /// Explains the colours, if there are any.
  void legend() const;

  /// Writes the bytes of one token. A character that spans tokens is held back until it is whole,
  /// and gets the colour of its last token. What will be none is written as U+FFFD.
  void write(const std::string& bytes, hunch::origin from);

  /// Writes what was held back, and ends the line.
  void finish();

  /// Whether what was written can be taken back: on a terminal that moves its cursor.
  bool takes_back() const { return cursor_; }
  /// Writes a draft of what follows, which `take_back` removes; U+FFFD for what is a part of a
  /// character. Not longer than two lines.
  void preview(const std::string& bytes, hunch::origin from);
  void take_back();

 private:
  std::string painted(const std::string& text, hunch::origin from) const;

  bool color_;
  bool cursor_;
  bool previews_ = false;
  std::string held_;
};

}  // namespace generate

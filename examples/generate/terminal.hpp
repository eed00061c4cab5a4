// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <hunch/types.hpp>

#include "generate/arguments.hpp"

namespace generate {

/// Writes text to standard output as it comes, coloured by where each token came from.
class terminal {
 public:
  explicit terminal(color_mode mode);

  /// Explains the colours, if there are any.
  void legend() const;

  /// Writes the bytes of one token. A character that spans tokens is held back until it is whole,
  /// and gets the colour of its last token.
  void write(const std::string& bytes, hunch::origin from);

  /// Writes what was held back, and ends the line.
  void finish();

 private:
  std::string painted(const std::string& text, hunch::origin from) const;

  bool color_;
  std::string held_;
};

}  // namespace generate

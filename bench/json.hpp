// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

/// \file
/// The little JSON that a report needs, so that suites build on machines without a JSON library.

namespace bench {

/// A JSON string, quotes included; `text` is UTF-8.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A JSON number; null for what JSON has no number for.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) { return "null"; }
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.17g", value);
  return digits;
}

}  // namespace bench

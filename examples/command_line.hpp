// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

/// \file
/// What the programs of the examples share in reading their flags.

namespace command_line {

/// Raised for flags that are unknown, malformed, unsupported or contradict each other.
struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// The whole of `text` as a number. \throws usage_error naming the flag.
template <class T>
T number(std::string_view flag, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw usage_error(std::string(flag) + ": '" + std::string(text) +
                      "' is not a number that fits");
  }
  return value;
}

/// The same for one that must not be less than `least`, and must not be a NaN.
template <class T>
T number_at_least(std::string_view flag, std::string_view text, T least) {
  const T value = number<T>(flag, text);
  if (!(value >= least)) {
    std::ostringstream out;
    out << flag << ": " << text << " is less than " << least;
    throw usage_error(out.str());
  }
  return value;
}

}  // namespace command_line

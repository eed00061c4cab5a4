// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdio>
#include <exception>
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

/// set(flag, value) for every pair of the command line; it returns whether there is such a flag.
/// \throws usage_error for others, and for a flag without a value.
template <class Set>
void for_each_flag(int argc, char** argv, const Set& set) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (i + 1 == argc) { throw usage_error(std::string(flag) + " needs a value"); }
    if (!set(flag, std::string_view(argv[i + 1]))) {
      throw usage_error("unknown flag '" + std::string(flag) + "'");
    }
  }
}

/// What `main` returns for a program that is `body`: 0, 2 with a complaint and its usage for
/// arguments that do not go, 1 with a complaint for other exceptions.
template <class Body>
int exit_status(const char* program, const char* usage, const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s: %s\n%s", program, error.what(), usage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace command_line

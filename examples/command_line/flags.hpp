// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace command_line {

/// Raised for flags that are unknown, malformed, unsupported or contradict each other.
struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Raised for `--help`, with the text that is asked for.
struct help_wanted {
  std::string text;
};

/// The whole of `text` as a number in [least, most], never a NaN.
/// \throws usage_error naming the flag.
template <class T>
T number(std::string_view flag, std::string_view text, T least = std::numeric_limits<T>::lowest(),
         T most = std::numeric_limits<T>::max()) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::ostringstream out;
  out << flag << ": ";
  if (error != std::errc() || end != text.data() + text.size()) {
    out << '\'' << text << "' is not a number that fits";
  } else if (!(value >= least)) {
    out << text << " is less than " << least;
  } else if (value > most) {
    out << text << " is more than " << most;
  } else {
    return value;
  }
  throw usage_error(out.str());
}

/// Of this machine; more threads of a model than these wait for each other.
std::int32_t processors();

/// A value that has a name.
template <class T>
using named = std::pair<const char*, T>;

/// Which of `values` has the name `text`. \throws usage_error naming the flag and all values.
template <class T>
T one_of(std::string_view flag, std::string_view text, std::span<const named<T>> values) {
  std::string known;
  for (const auto& [name, value] : values) {
    if (text == name) { return value; }
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw usage_error(std::string(flag) + ": '" + std::string(text) + "' is unknown; it takes " +
                    known);
}

/// The flags of a program, each given once at most. Where they go outlives the parser.
class flags {
 public:
  flags(const std::string& program, const std::string& purpose);
  ~flags();
  flags(flags&&) noexcept;

  /// The heading of what is added from here on, in the text of `--help`.
  void section(std::string heading) { section_ = std::move(heading); }
  void footer(const std::string& text);

  /// A flag whose value `take` reads. \param value what `--help` calls it
  void add(const std::string& flag, const std::string& value, const std::string& help,
           std::function<void(const std::string&)> take);
  /// One without a value.
  void add(const std::string& flag, const std::string& help, bool& to);
  void add(const std::string& flag, const std::string& value, const std::string& help,
           std::string& to) {
    add(flag, value, help, [&to](const std::string& text) { to = text; });
  }
  template <class T>
  void add_number(const std::string& flag, const std::string& help, T& to,
                  T least = std::numeric_limits<T>::lowest(),
                  T most = std::numeric_limits<T>::max()) {
    add(flag, std::is_integral_v<T> ? "N" : "X", help,
        [flag, &to, least, most](const auto& text) { to = number<T>(flag, text, least, most); });
  }
  template <class T>
  void add_choice(const std::string& flag, const std::string& help, T& to,
                  std::span<const named<T>> values) {
    add(flag, "NAME", help,
        [flag, &to, values](const auto& text) { to = one_of<T>(flag, text, values); });
  }

  void require(const std::string& flag);

  /// Reads them. Returns the flags that were given.
  /// \throws usage_error, help_wanted
  std::set<std::string> parse(const std::vector<std::string>& words);

 private:
  struct parser;

  std::unique_ptr<parser> parser_;
  std::string section_ = "Flags";
};

}  // namespace command_line

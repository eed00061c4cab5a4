// SPDX-License-Identifier: Apache-2.0
#include "generate/costs.hpp"

#include <cstddef>
#include <cstdio>

#include <command_line/flags.hpp>

namespace generate {

namespace {

constexpr std::string_view prefix = "auto:";
constexpr std::size_t most_rows = 64;

std::string digits(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.4g", value);
  return out;
}

/// Calls use(part) for what lies between separators.
template <class Use>
void for_each_part(std::string_view text, char separator, const Use& use) {
  for (;;) {
    const std::size_t end = text.find(separator);
    use(text.substr(0, end));
    if (end == std::string_view::npos) { return; }
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string text_of(const costs& c) {
  std::string out(prefix);
  out += "draft=" + digits(c.draft) + ",expected=" + digits(c.alpha) + ",rows=";
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    if (i > 0) { out += '/'; }
    out += digits(c.rows[i]);
  }
  return out;
}

costs costs_of(std::string_view flag, std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw command_line::usage_error(std::string(flag) + ": '" + std::string(text) + "' " + why);
  };
  if (!text.starts_with(prefix)) { refuse("is neither a number nor auto nor begins with auto:"); }
  const auto cost = [&](std::string_view number, double most) {
    return command_line::number<double>(flag, number, 0.0, most);
  };
  costs out;
  bool draft = false, expected = false;
  for_each_part(text.substr(prefix.size()), ',', [&](std::string_view part) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (name == "draft" && !draft) {
      out.draft = cost(value, 1e6);
      draft = true;
    } else if (name == "expected" && !expected) {
      out.alpha = cost(value, 1.0);
      expected = true;
    } else if (name == "rows" && out.rows.empty()) {
      for_each_part(value, '/', [&](std::string_view r) { out.rows.push_back(cost(r, 1e6)); });
    } else {
      refuse("has a part that is not draft=C, expected=A or rows=R1/R2/..., each once");
    }
  });
  if (!draft || !expected || out.rows.empty()) { refuse("lacks one of draft, expected and rows"); }
  if (out.rows.size() > most_rows) { refuse("has too many rows"); }
  return out;
}

}  // namespace generate

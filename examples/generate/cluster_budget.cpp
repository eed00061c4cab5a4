// SPDX-License-Identifier: Apache-2.0
#include "generate/cluster_budget.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

#include <command_line/flags.hpp>

namespace generate {

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words{""};
  for (const char c : text) {
    if (c == ':') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

bool is_number(const std::string& word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
}

}  // namespace

cluster_budget parse_budget(const std::string& flag, const std::string& text) {
  using command_line::number;
  using command_line::usage_error;
  const std::vector<std::string> words = split(text);
  cluster_budget out;
  std::size_t i = 0;
  for (; i < words.size() && (words[i] == "per-row" || words[i] == "position-aware"); ++i) {
    (words[i] == "per-row" ? out.ranks_per_row : out.is_position_aware) = true;
  }
  const bool short_form =
      i > 0 && words[i - 1] == "position-aware" && i < words.size() && is_number(words[i]);
  const std::string kind = short_form ? "fixed" : i < words.size() ? words[i++] : "";
  const std::size_t numbers = words.size() - i;
  if (kind != "fixed" && kind != "mass" && kind != "rows") {
    throw usage_error(flag + ": '" + text +
                      "' is unknown; it takes fixed:K, position-aware:K, mass:P[:K], rows:R[:K], "
                      "after per-row: or position-aware: if wanted");
  }
  if (numbers < 1 || numbers > (kind == "fixed" ? 1u : 2u)) {
    throw usage_error(flag + ": '" + text + "' has not the numbers that " + kind + " takes");
  }
  if (kind == "mass") {
    out.share = number<float>(flag, words[i], 0.0f, 1.0f);
    if (!(out.share > 0.0f)) {
      throw usage_error(flag + ": the share " + words[i] + " is not in (0, 1]");
    }
  }
  if (kind == "rows") { out.rows = number<std::int32_t>(flag, words[i], 1); }
  if (kind == "fixed" || numbers == 2) { out.most = number<std::int32_t>(flag, words.back(), 1); }
  return out;
}

}  // namespace generate

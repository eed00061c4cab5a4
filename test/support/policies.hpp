// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "recorded_rows.hpp"

/// \file
/// Which policies there are, and which of them the rows of a program's tests are made of.

namespace hunch::test {

using names = std::set<std::string>;

/// The policies of a folder of the headers: what a header of its name defines. \param with what the
/// header must say, for policies that are composed of others.
inline names policies_in(const std::string& folder, const std::string& with = "") {
  names found;
  const std::string space = std::regex_replace(folder, std::regex("/"), "::");
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(HUNCH_HEADERS) / folder)) {
    if (!file.is_regular_file()) { continue; }  // what is private
    const std::string name = file.path().stem().string();
    std::ifstream in(file.path());
    const std::string code{std::istreambuf_iterator<char>(in), {}};
    // Bodies, which are in a namespace of their own, are no policies.
    if (std::regex_search(code, std::regex("\\b(struct|class) " + name + "\\b")) &&
        code.find("namespace hunch::" + space + " {") != std::string::npos &&
        code.find(with) != std::string::npos) {
      found.insert(space + "::" + name);
    }
  }
  return found;
}

/// A row without what is between the brackets of each `one_of`.
inline std::string without_choices(const std::string& row) {
  static const std::string opens = "::one_of<";
  std::string kept;
  for (std::size_t i = 0; i < row.size(); ++i) {
    kept += row[i];
    if (!kept.ends_with(opens)) { continue; }
    for (int depth = 1; depth > 0 && ++i < row.size();) {
      depth += row[i] == '<' ? 1 : row[i] == '>' ? -1 : 0;
    }
    kept += '>';
  }
  return kept;
}

/// Whether a row is made of policies. What a `one_of` could be is not what it is.
inline bool is_in(const std::string& row, const names& policies) {
  const std::string chosen = without_choices(row);
  return std::ranges::all_of(policies, [&](const std::string& policy) {
    return std::regex_search(chosen, std::regex("\\bhunch::" + policy + "\\b"));
  });
}
inline bool any_row_has(const names& policies) {
  return std::ranges::any_of(recorded_rows(),
                             [&](const std::string& row) { return is_in(row, policies); });
}

}  // namespace hunch::test

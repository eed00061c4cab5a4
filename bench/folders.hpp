// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace bench {

/// The folders of models that are not shipped, which a variable of the environment names, a colon
/// between them.
/// \param variable such as HUNCH_BENCH_DRAFTS.
inline std::vector<std::filesystem::path> named_folders(const char* variable) {
  const char* const all = std::getenv(variable);
  const std::string names = all == nullptr ? "" : all;
  std::vector<std::filesystem::path> out;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(':', begin), names.size());
    out.emplace_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <engine/tokenizer.hpp>
#include <hunch/types.hpp>

namespace bench {

/// The beginnings of the held-out texts, cut at a line end: one prompt per domain.
inline std::vector<std::vector<hunch::token>> domain_prompts(const engine::tokenizer& text,
                                                             const std::filesystem::path& folder) {
  constexpr std::size_t longest = 400;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") { files.push_back(entry.path()); }
  }
  std::ranges::sort(files);
  std::vector<std::vector<hunch::token>> prompts;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string start(longest, '\0');
    in.read(start.data(), static_cast<std::streamsize>(longest));
    start.resize(static_cast<std::size_t>(in.gcount()));
    start.resize(std::min(start.size(), start.find_last_of('\n') + 1));
    prompts.push_back(text.encode(start));
  }
  return prompts;
}

}  // namespace bench

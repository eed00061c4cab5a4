// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <engine/config.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/core/types.hpp>

namespace bench {

/// The names of the held-out texts in a folder, in their order.
inline std::vector<std::string> domains(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") { names.push_back(entry.path().stem()); }
  }
  std::ranges::sort(names);
  return names;
}

/// The tokenizer of a folder, whose tokens a model reads.
/// \throws std::runtime_error naming both if the model was trained with another one.
inline engine::tokenizer tokenizer_for(const std::filesystem::path& folder,
                                       const std::filesystem::path& model,
                                       const engine::config& shape) {
  engine::tokenizer text(folder);
  engine::check_tokenizer(text, folder, model, shape);
  return text;
}

/// The tokens of a file, without one that begins a text.
inline std::vector<hunch::token> tokens_of(const engine::tokenizer& text,
                                           const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  return text.encode(all, false);
}

/// Those of the held-out texts in a folder.
inline std::vector<std::vector<hunch::token>> domain_texts(const engine::tokenizer& text,
                                                           const std::filesystem::path& folder) {
  std::vector<std::vector<hunch::token>> texts;
  for (const std::string& name : domains(folder)) {
    texts.push_back(tokens_of(text, folder / (name + ".txt")));
  }
  return texts;
}

/// The beginnings of the held-out texts, cut at a line end: one prompt per domain.
inline std::vector<std::vector<hunch::token>> domain_prompts(const engine::tokenizer& text,
                                                             const std::filesystem::path& folder) {
  constexpr std::size_t longest = 400;
  std::vector<std::vector<hunch::token>> prompts;
  for (const std::string& name : domains(folder)) {
    std::ifstream in(folder / (name + ".txt"), std::ios::binary);
    std::string start(longest, '\0');
    in.read(start.data(), static_cast<std::streamsize>(longest));
    start.resize(static_cast<std::size_t>(in.gcount()));
    start.resize(std::min(start.size(), start.find_last_of('\n') + 1));
    prompts.push_back(text.encode(start));
  }
  return prompts;
}

}  // namespace bench

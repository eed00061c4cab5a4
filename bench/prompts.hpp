// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
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

inline std::string read_whole(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The tokens of a file, without one that begins a text.
inline std::vector<hunch::token> tokens_of(const engine::tokenizer& text,
                                           const std::filesystem::path& file) {
  return text.encode(read_whole(file), false);
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

/// Prompts from a text: `count` pieces of whole lines, evenly spaced, the first one its beginning.
inline std::vector<std::vector<hunch::token>> prompts_in(const engine::tokenizer& text,
                                                         const std::filesystem::path& file,
                                                         std::size_t count) {
  constexpr std::size_t longest = 400;
  const std::string all = read_whole(file);
  std::vector<std::vector<hunch::token>> prompts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto next_line = [&](std::size_t at) {
      const std::size_t end = all.find('\n', at);
      if (end == std::string::npos) {
        throw std::runtime_error(file.string() + ": too few lines to take " +
                                 std::to_string(count) + " prompts from");
      }
      return end + 1;
    };
    std::size_t first = i == 0 ? 0 : next_line(all.size() * i / count);
    std::string piece = all.substr(first, longest);
    while (piece.find('\n') == std::string::npos) {  // within a longer line
      first = next_line(first);
      piece = all.substr(first, longest);
    }
    piece.resize(piece.rfind('\n') + 1);
    prompts.push_back(text.encode(piece));
  }
  return prompts;
}

/// The beginnings of the held-out texts: one prompt per domain.
inline std::vector<std::vector<hunch::token>> domain_prompts(const engine::tokenizer& text,
                                                             const std::filesystem::path& folder) {
  std::vector<std::vector<hunch::token>> prompts;
  for (const std::string& name : domains(folder)) {
    prompts.push_back(prompts_in(text, folder / (name + ".txt"), 1)[0]);
  }
  return prompts;
}

}  // namespace bench

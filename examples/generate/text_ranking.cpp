// SPDX-License-Identifier: Apache-2.0
#include "generate/text_ranking.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <command_line/flags.hpp>
#include <hunch/tools/frequency_ranking.hpp>

namespace generate {

namespace fs = std::filesystem;

std::vector<fs::path> text_files(const std::string& flag, const std::string& path) {
  std::error_code why;
  if (!fs::is_directory(path, why)) { return {path}; }
  const fs::directory_iterator folder(path, why);
  if (why) {
    throw command_line::usage_error(flag + ": cannot read '" + path + "': " + why.message());
  }
  std::vector<fs::path> out;
  for (const auto& entry : folder) {
    if (entry.path().extension() == ".txt") { out.push_back(entry.path()); }
  }
  if (out.empty()) { throw command_line::usage_error(flag + ": '" + path + "' has no .txt file"); }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<hunch::token> always_ranked(const engine::tokenizer& text,
                                        const std::vector<int>& ends) {
  std::vector<hunch::token> out(ends.begin(), ends.end());
  for (hunch::token t = 0; t < text.vocab_size(); ++t) {
    if (t == text.eos() || text.bytes(t).size() == 1) { out.push_back(t); }
  }
  return out;
}

hunch::vocab_layout ranking_of(const std::vector<fs::path>& files, std::size_t bytes_of_each,
                               const engine::tokenizer& text, std::int32_t vocab_size,
                               const std::vector<int>& ends) {
  std::vector<hunch::token> corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) { throw std::runtime_error(file.string() + ": cannot be read"); }
    std::string some(std::min(bytes_of_each, static_cast<std::size_t>(fs::file_size(file))), '\0');
    in.read(some.data(), static_cast<std::streamsize>(some.size()));
    some.resize(static_cast<std::size_t>(in.gcount()));
    const std::vector<hunch::token> tokens = text.encode(some, false);
    corpus.insert(corpus.end(), tokens.begin(), tokens.end());
  }
  return hunch::frequency_ranking(corpus, vocab_size, always_ranked(text, ends));
}

}  // namespace generate

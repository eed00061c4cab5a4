// SPDX-License-Identifier: Apache-2.0

// Orders the tokens of a model's vocabulary for shortlists of the most frequent ones.
//
//   make_ranking --model DIR (--text FILE|FOLDER | --tokens FILE) --out FILE

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <command_line/files.hpp>
#include <command_line/flags.hpp>
#include <command_line/run.hpp>
#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/tools/layout_file.hpp>

#include "generate/text_ranking.hpp"

namespace {

struct arguments {
  std::string model, text, tokens, out;
  std::int32_t megabytes = 64;
};

using command_line::usage_error;

arguments parse(const std::vector<std::string>& words) {
  arguments out;
  command_line::flags flags("make_ranking",
                            "the tokens of a vocabulary by frequency, for shortlists (FR-Spec)");
  flags.add("--model", "DIR", "whose tokens are ranked: config.json and its tokenizer", out.model);
  flags.add("--text", "FILE",
            "by how often they are in it; or in the .txt files of a folder. What ends a text\n"
            "and single bytes come first",
            out.text);
  flags.add_number("--megabytes", "of each file at most (default 64)", out.megabytes, 1, 1 << 12);
  flags.add("--tokens", "FILE",
            "or as a published list has them: a safetensors file with one list of ids, as\n"
            "convert.py makes it of a .pt. What ends a text comes first",
            out.tokens);
  flags.add("--out", "FILE", "the ranking", out.out);
  for (const char* needed : {"--model", "--out"}) { flags.require(needed); }
  flags.parse(words);
  if (out.text.empty() == out.tokens.empty()) {
    throw usage_error("tokens are ranked by --text or by --tokens: give one");
  }
  command_line::check_writable("--out", out.out);
  return out;
}

/// The rows that a published list has: a head that is stored so has no others. What ends a text
/// comes first, so that a list that is cut off has it; what is there twice counts once.
hunch::vocab_layout published(const std::string& path, const engine::config& shape,
                              hunch::token end) {
  const engine::checkpoint file = engine::checkpoint::open(path);
  const std::vector<std::string> names = file.names();
  if (names.size() != 1) {
    throw std::runtime_error(path + ": has " + std::to_string(names.size()) +
                             " tensors, expected one list of token ids");
  }
  const std::int32_t vocab_size = shape.vocab_size;
  std::vector<hunch::token> tokens;
  std::vector<char> is_there(static_cast<std::size_t>(vocab_size));
  for (const std::int64_t id : file.integers(names.front())) {
    if (id < 0 || id >= vocab_size) {
      throw std::runtime_error(path + ": has token " + std::to_string(id) +
                               ", outside of the vocabulary of " + std::to_string(vocab_size));
    }
    char& known = is_there[static_cast<std::size_t>(id)];
    if (known == 0) { tokens.push_back(static_cast<hunch::token>(id)); }
    known = 1;
  }
  std::stable_partition(tokens.begin(), tokens.end(), [&](hunch::token t) {
    return t == end ||
           std::find(shape.end_tokens.begin(), shape.end_tokens.end(), t) != shape.end_tokens.end();
  });
  return hunch::vocab_layout::permuted(std::move(tokens), vocab_size);
}

void run(const arguments& args) {
  const std::filesystem::path directory = args.model;
  const engine::config shape = engine::read_config(directory / "config.json");
  const engine::tokenizer text(directory);
  engine::check_tokenizer(text, directory, directory, shape);
  const hunch::vocab_layout layout =
      args.tokens.empty() ? generate::ranking_of(generate::text_files("--text", args.text),
                                                 static_cast<std::size_t>(args.megabytes) << 20,
                                                 text, shape.vocab_size, shape.end_tokens)
                          : published(args.tokens, shape, text.eos());
  // Of any head of the vocabulary.
  const hunch::made_for made_for{.vocab_size = shape.vocab_size,
                                 .vocabulary = text.fingerprint(),
                                 .head = 0,
                                 .name = args.model};
  hunch::save_layout(args.out, layout, made_for);
  std::printf("%s: %d of %d tokens\n", args.out.c_str(), layout.head_rows(), layout.vocab_size());
}

}  // namespace

int main(int argc, char** argv) {
  return command_line::run("make_ranking", argc, argv,
                           [](const auto& words) { run(parse(words)); });
}

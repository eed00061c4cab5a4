// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sentencepiece_trainer.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <engine/tokenizer.hpp>

#include "temporary_directory.hpp"

namespace {

/// A tokenizer with byte fallback, trained on the spot.
engine::tokenizer train(const test::temporary_directory& directory) {
  const auto text = directory.path() / "text.txt";
  std::ofstream out(text);
  for (int i = 0; i < 200; ++i) {
    out << "the quick brown fox jumps over the lazy dog " << i << "\n";
    out << "while 3 witty wizards quaff magic potions\n";
  }
  out.close();
  const auto prefix = directory.path() / "tokenizer";
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + text.string() + " --model_prefix=" + prefix.string() +
      " --vocab_size=340 --model_type=bpe --byte_fallback=true --minloglevel=2"
      " --normalization_rule_name=identity --remove_extra_whitespaces=false");
  REQUIRE_MESSAGE(status.ok(), status.ToString());
  return engine::tokenizer(directory.path());
}

}  // namespace

TEST_CASE("text survives encoding and decoding, and tokens concatenate to it") {
  const test::temporary_directory directory;
  const engine::tokenizer t = train(directory);
  for (const std::string text :
       {"the quick brown fox", "lazy  dogs,\n\tand tabs", "caf\xc3\xa9 \xf0\x9f\x90\xb6!", "3",
        " leading", "trailing ", "\xe4\xb8\xad\xe6\x96\x87 the"}) {
    CAPTURE(text);
    const auto tokens = t.encode(text);
    REQUIRE(!tokens.empty());
    CHECK(tokens.front() == t.bos());
    CHECK(t.decode(tokens) == text);
    std::string bytes;
    for (const hunch::token token : tokens) { bytes += t.bytes(token); }
    CHECK(bytes == " " + text);  // encoding puts a space before the first word
    CHECK(t.encode(text, false) == std::vector<hunch::token>(tokens.begin() + 1, tokens.end()));
  }
}

TEST_CASE("the bytes of special tokens") {
  const test::temporary_directory directory;
  const engine::tokenizer t = train(directory);
  CHECK(t.vocab_size() == 340);
  CHECK(t.bos() == 1);
  CHECK(t.eos() == 2);
  CHECK(t.bytes(t.bos()).empty());
  CHECK(t.bytes(t.eos()).empty());
  CHECK(t.bytes(-1).empty());
  CHECK(t.bytes(340).empty());
  // Byte tokens follow the three control tokens, in order.
  for (int byte = 0; byte < 256; ++byte) {
    CHECK(t.bytes(3 + byte) == std::string(1, static_cast<char>(byte)));
  }
}

TEST_CASE("a tokenizer that cannot be read is named") {
  const test::temporary_directory directory;
  const auto message_for = [](const std::filesystem::path& source) -> std::string {
    try {
      engine::tokenizer{source};
    } catch (const std::runtime_error& error) { return error.what(); }
    return {};
  };
  CHECK(message_for(directory.path()).find("tokenizer.model") != std::string::npos);
  std::ofstream(directory.path() / "tokenizer.model") << "this is no model";
  CHECK(message_for(directory.path()).find("tokenizer.model") != std::string::npos);
}

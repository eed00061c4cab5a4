// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <engine/text/utf8.hpp>
#include <engine/tokenizer.hpp>

#include "temporary_directory.hpp"

/// Tokenizers in the files of Hugging Face.

namespace tokenizer_json_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path tiny = fs::path(HUNCH_TEST_MODELS) / "tiny";

json json_of(const fs::path& file) {
  std::ifstream in(file);
  REQUIRE_MESSAGE(in, file.string());
  return json::parse(in);
}

/// What examples/recipes/text/tokenizer_golden.py wrote; HUNCH_TOKENIZERS names another file of
/// its.
const json& golden() {
  static const json all = [] {
    const char* const other = std::getenv("HUNCH_TOKENIZERS");
    return json_of(other != nullptr ? fs::path(other) : fs::path(HUNCH_TEST_TOKENIZERS));
  }();
  return all;
}

/// A whole tokenizer.json.
json file_of(const std::string& name) {
  json out = golden()["tokenizers"][name];
  out["model"] = golden()["models"][out["model"].get<std::string>()];
  return out;
}

/// A directory with files.
class folder {
 public:
  folder& with(const std::string& name, const json& value) { return with_text(name, value.dump()); }
  folder& with_text(const std::string& name, const std::string& text) {
    std::ofstream(where_.path() / name, std::ios::binary) << text;
    return *this;
  }
  const fs::path& path() const { return where_.path(); }
  engine::tokenizer read() const { return engine::tokenizer(path()); }

 private:
  test::temporary_directory where_;
};

std::vector<std::string> strings() {
  std::vector<std::string> out;
  for (const json& one : golden()["strings"]) { out.push_back(one); }
  for (const json& one : golden()["broken"]) {
    const auto digits = one.get<std::string>();
    out.emplace_back();
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      out.back() += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    }
  }
  return out;
}

std::vector<hunch::token> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<hunch::token> out;
  for (hunch::token t = 0; in >> t;) { out.push_back(t); }
  return out;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::runtime_error& error) { return error.what(); }
  return {};
}

}  // namespace

TEST_CASE("tokenizers as they are published read and write as the library tokenizers does") {
  const std::vector<std::string> texts = strings();
  std::size_t compared = 0, agree = 0;
  for (const auto& of : golden()["tokenizers"].items()) {
    const std::string& name = of.key();
    CAPTURE(name);
    folder one;
    const engine::tokenizer t = one.with("tokenizer.json", file_of(name)).read();
    std::size_t other = 0;
    for (const json& result : golden()["results"][name]) {
      const std::string& text = texts.at(result.at(0).get<std::size_t>());
      CAPTURE(text);
      const std::vector<hunch::token> expected = numbers(result.at(1));
      const bool same = t.encode(text) == expected;
      CHECK(same);
      const std::string decoded =
          result.size() > 2 ? result[2].get<std::string>() : engine::text::well_formed(text);
      CHECK(engine::text::well_formed(t.decode(expected)) == decoded);
      ++compared;
      agree += same ? 1 : 0;
      other += t.encode(text + "ab") != expected ? 1 : 0;
    }
    CHECK(other == golden()["results"][name].size());
  }
  CHECK(compared >= texts.size());
  MESSAGE(agree << " of " << compared << " texts agree, by " << golden()["tokenizers"].size()
                << " tokenizers");
}

TEST_CASE("a vocab.json with its merges.txt reads as the tokenizer.json of the same parts") {
  const json whole = file_of("qwen2");
  folder two, other;
  std::string merges = "#version: 0.2\n";
  for (const json& pair : whole["model"]["merges"]) { merges += pair.get<std::string>() + "\r\n"; }
  json added = json::object();
  for (const json& one : whole["added_tokens"]) { added[one["id"].dump()] = one; }
  json about = {{"tokenizer_class", "DreamTokenizer"},
                {"added_tokens_decoder", added},
                {"bos_token", nullptr},
                {"eos_token", "<|endoftext|>"},
                {"mask_token", {{"content", "<|mdm_mask|>"}}}};
  two.with("vocab.json", whole["model"]["vocab"]).with_text("merges.txt", merges);
  const engine::tokenizer t = two.with("tokenizer_config.json", about).read();
  const engine::tokenizer of_one_file = other.with("tokenizer.json", whole).read();
  CHECK(t.file() == two.path() / "vocab.json");
  CHECK(t.fingerprint() == of_one_file.fingerprint());
  CHECK(t.vocab_size() == of_one_file.vocab_size());
  CHECK(t.bos() == hunch::no_token);
  CHECK(t.bytes(t.eos()).empty());
  CHECK(t.eos() + 1 == t.mask());
  for (const std::string& text : strings()) { CHECK(t.encode(text) == of_one_file.encode(text)); }

  about["tokenizer_class"] = "GPT2Tokenizer";
  about["add_bos_token"] = true;
  about["bos_token"] = "<|endoftext|>";
  const engine::tokenizer by_gpt2 = two.with("tokenizer_config.json", about).read();
  const engine::tokenizer gpt2 = other.with("tokenizer.json", file_of("gpt2")).read();
  std::size_t others = 0;
  for (const std::string& text : strings()) {
    CHECK(by_gpt2.encode(text, false) == gpt2.encode(text));
    others += gpt2.encode(text) != t.encode(text) ? 1 : 0;
  }
  CHECK(others > 40);  // the rules differ
  CHECK(by_gpt2.encode("a").front() == by_gpt2.eos());
}

TEST_CASE("tokens that have a part to play are those that the files name") {
  json whole = file_of("llama3");
  folder one;
  CHECK(one.with("tokenizer.json", whole).read().eos() == hunch::no_token);
  one.with(
      "config.json",
      {{"eos_token_id", json::array({7, 8})}, {"bos_token_id", 5}, {"mask_token_id", 1 << 20}});
  const engine::tokenizer first = one.read();
  CHECK(first.eos() == 7);
  CHECK(first.bos() == 5);
  CHECK(first.mask() == hunch::no_token);  // an embedding may have more rows than there are tokens
  const json end = {{"content", "<|im_start|>"}};
  const engine::tokenizer t = one.with("tokenizer_config.json", {{"eos_token", end}}).read();
  CHECK(t.eos() == t.vocab_size() - 3);
  CHECK(t.bos() == 5);
  // Of what a template puts around a text, what stands in front of it.
  json& single = whole["post_processor"]["single"];
  REQUIRE(single.size() == 2);
  single.push_back(json(single[0]));
  const engine::tokenizer closed = one.with("tokenizer.json", whole).read();
  CHECK(closed.encode("a") == t.encode("a"));
  CHECK(t.encode("a").size() == 2);
  CHECK(t.encode("a", false).size() == 1);
  CHECK(t.encode("").size() == 1);
}

TEST_CASE("a Llama's tokenizer begins a text without a template that says so") {
  const json whole = file_of("llama3");
  const std::string bos = whole["added_tokens"][0]["content"];
  const auto front = [&](const json& post_processor, const json& more) {
    folder one;
    json values = whole;
    values["post_processor"] = post_processor;
    json about{{"bos_token", bos}, {"tokenizer_class", "LlamaTokenizerFast"}};
    about.update(more);
    const engine::tokenizer t =
        one.with("tokenizer.json", values).with("tokenizer_config.json", about).read();
    std::vector<hunch::token> out = t.encode("a");
    REQUIRE(t.encode("a", false) == std::vector<hunch::token>{out.back()});
    out.pop_back();
    if (!out.empty()) { CHECK(out == std::vector<hunch::token>{t.bos()}); }
    return out.size();
  };
  const json bytes{{"type", "ByteLevel"}};
  for (const json& nothing : {json(), bytes}) {
    CHECK(front(nothing, json::object()) == 1);
    CHECK(front(nothing, {{"tokenizer_class", "LlamaTokenizer"}}) == 1);
    CHECK(front(nothing, {{"add_bos_token", true}}) == 1);
    CHECK(front(nothing, {{"add_bos_token", false}}) == 0);
    CHECK(front(nothing, {{"tokenizer_class", "PreTrainedTokenizerFast"}}) == 0);
    CHECK(front(nothing, {{"tokenizer_class", nullptr}, {"add_bos_token", true}}) == 0);
    CHECK(front(nothing, {{"bos_token", nullptr}}) == 0);
  }
  // A template says it.
  CHECK(front(whole["post_processor"], json::object()) == 1);
  json none = whole["post_processor"];
  REQUIRE(none["single"].size() == 2);
  none["single"].erase(0);
  CHECK(front(none, {{"add_bos_token", true}}) == 0);
}

TEST_CASE("what a caller asked for once is not a tokenizer's") {
  const std::string name = "gpt2";
  json whole = file_of(name);
  folder one, other;
  const engine::tokenizer t = one.with("tokenizer.json", whole).read();
  whole["truncation"] = {{"direction", "Right"}, {"max_length", 1}, {"strategy", "LongestFirst"}};
  whole["padding"] = {{"strategy", {{"Fixed", 512}}}, {"pad_id", 0}, {"pad_token", "<pad>"}};
  CHECK(other.with("tokenizer.json", whole).read().encode("two words") == t.encode("two words"));
}

TEST_CASE("of several files the tokenizer.json is read") {
  folder one;
  CHECK_FALSE(engine::tokenizer::file_in(one.path()).has_value());
  CHECK(message_of([&] { one.read(); }).find("tokenizer.json") != std::string::npos);
  one.with("tokenizer_config.json", json::object());
  for (const char* name : {"vocab.json", "tokenizer.model", "tokenizer.json"}) {
    one.with(name, "");
    CHECK(engine::tokenizer::file_in(one.path()) == one.path() / name);
    CHECK(message_of([&] { one.read(); }).starts_with(one.path().string()));
  }
}

TEST_CASE("what streams of tokens add up to is never cut inside of a character") {
  for (const char* name : {"llada", "dream"}) {
    const engine::tokenizer t(tiny / name);
    std::string all, held, shown;
    std::size_t parts = 0;
    std::int64_t random = 1;
    for (int i = 0; i < 4000; ++i) {
      random = (random * 75 + 74) % 65537;
      const auto id = static_cast<hunch::token>(random % (t.vocab_size() + 2) - 1);  // two are none
      const std::string& bytes = t.bytes(id);
      parts += engine::text::well_formed(bytes) != bytes ? 1 : 0;
      all += bytes;
      held += bytes;
      const std::string now = engine::text::take_characters(held);
      CHECK(engine::text::well_formed(now) == now);
      CHECK(held.size() < 4);
      shown += now;
    }
    CHECK(shown + engine::text::well_formed(held) == engine::text::well_formed(all));
    CHECK(parts > 1000);  // tokens that are no text by themselves
    const std::string text = "na\u00efve \u4e2d\u6587 \U0001f600 <|endoftext|>x";
    std::string streamed;
    held.clear();
    for (const hunch::token token : t.encode(text)) {
      held += t.bytes(token);
      streamed += engine::text::take_characters(held);
    }
    CHECK(streamed == "na\u00efve \u4e2d\u6587 \U0001f600 x");
    CHECK(held.empty());
  }
}

TEST_CASE("what a tokenizer.json asks for and is not there is refused by its name") {
  struct wrong {
    const char* of;
    const char* at;  ///< a JSON pointer
    json value;
    std::vector<std::string> named;
  };
  const auto added = [](const char* key, const json& value) {
    json out = {{"content", "<x>"}, {"id", 5000}, {"special", true}};
    out[key] = value;
    return out;
  };
  const auto regex = [](const char* expression) { return json::object({{"Regex", expression}}); };
  const auto type = [](const char* name) { return json::object({{"type", name}}); };
  const char* const pattern = "/pre_tokenizer/pretokenizers/0/pattern";
  const std::vector<wrong> all = {
      {"gpt2", "/model/type", "WordPiece", {"\"model\": \"type\" is WordPiece", "BPE and Unigram"}},
      {"gpt2", "/model/dropout", 0.1, {"\"dropout\" is 0.1", "null is expected"}},
      {"gpt2", "/model/continuing_subword_prefix", "##", {"\"continuing_subword_prefix\""}},
      {"gpt2", "/model/end_of_word_suffix", "</w>", {"\"end_of_word_suffix\""}},
      {"gpt2", "/model/merges/0", "a b c", {"\"merges\" has \"a b c\"", "pairs"}},
      {"gpt2", "/model/merges/0", json::array({"a"}), {"\"merges\" has [\"a\"]"}},
      {"gpt2", "/model/merges/0", "a \u4e2d", {"is no token"}},
      {"gpt2", "/model/vocab/a", -1, {"\"vocab\"", "\"a\""}},
      {"gpt2", "/model/vocab/a", 1 << 30, {"\"vocab\"", "\"a\""}},
      {"gpt2", "/model/vocab/a", 1, {"\"vocab\"", "1 twice"}},
      {"gpt2", "/model/vocab/a", 1 << 20, {"\"vocab\" has the number 1048576 among"}},
      {"gpt2", "/model/vocab", json::array(), {"\"vocab\" is not an object"}},
      {"gpt2", "/model/vocab", json::object(), {"\"vocab\" is empty"}},
      {"llama2", "/model/unk_token", "<none>", {"\"unk_token\" is no token"}},
      {"unigram", "/model/vocab/3", json::array({"a"}), {"[token, score] is expected"}},
      {"unigram", "/model/unk_id", 1 << 20, {"\"unk_id\""}},
      {"gpt2", "/normalizer", type("Precompiled"), {"\"normalizer\"", "Precompiled", "NFKC"}},
      {"gpt2", "/pre_tokenizer", type("Whitespace"), {"\"pre_tokenizer\"", "Whitespace"}},
      {"qwen2", "/pre_tokenizer/pretokenizers/0/behavior", "Some", {"[0]: \"behavior\" is Some"}},
      {"qwen2", pattern, json::object(), {"neither \"String\" nor \"Regex\""}},
      {"qwen2", pattern, regex("(a"), {"\"Regex\" is not understood"}},
      {"qwen2", pattern, regex("\\w+"), {"\"Regex\" has \\w"}},
      {"qwen2", pattern, regex("a$"), {"has $"}},
      {"qwen2", pattern, regex("[a[b]]"), {"has [ in a class"}},
      {"qwen2", pattern, regex("[a-z&&b]"), {"has && in a class"}},
      {"qwen2", pattern, regex("[\\S]"), {"\\S in a class"}},
      {"qwen2", pattern, regex("a{1,3}+"), {"has }+"}},
      {"qwen2", pattern, regex("a{,3}"), {"has {,"}},
      {"qwen2", pattern, regex("a{13}?"), {"has {n}?"}},
      {"qwen2", pattern, regex("\\u12}x"), {"\\u without four digits"}},
      {"qwen2", pattern, regex("\\u"), {"\\u without four digits"}},
      {"qwen2", pattern, regex("(?<n>a)"), {"the group (?<n"}},
      {"qwen2", pattern, regex("(*COMMIT)"), {"the group (*CO"}},
      {"qwen2", pattern, regex("\\p{No_such_script}"), {"is not understood"}},
      {"qwen2", pattern, regex("[a"), {"[ without ]"}},
      {"gpt2", "/decoder", nullptr, {"\"decoder\" is missing"}},
      {"gpt2", "/decoder", type("WordPiece"), {"\"decoder\"", "WordPiece"}},
      {"llama2", "/decoder/decoders/3/content", "_", {"[3]: \"content\""}},
      {"llama2", "/decoder/decoders/2", type("ByteFallback"), {"[3]: \"type\" is Strip, before"}},
      {"llama2", "/post_processor", type("BertProcessing"), {"\"post_processor\"", "BertProc"}},
      {"llama2", "/post_processor/special_tokens/<s>/ids", json::array({99999}), {"no token"}},
      {"gpt2", "/added_tokens/0", added("single_word", true), {"[0]: \"single_word\" is true"}},
      {"gpt2", "/added_tokens/0", added("id", 3), {"[0]: \"id\" is that of"}},
      {"gpt2", "/added_tokens/0", added("id", 1 << 24), {"\"id\" is 16777216"}},
      {"gpt2", "/added_tokens/0", added("id", 1 << 20), {"\"id\" is 1048576, far beyond"}},
      {"unigram", "/model/vocab/3", json::array({std::string(2000, 'a'), -1.0}), {"2000 bytes"}},
      {"llama2",
       "/decoder/decoders/2",
       {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}},
       {"[2]: \"pattern\" is a \"Regex\" where tokens are bytes"}},
      {"mistral", "/pre_tokenizer/prepend_scheme", "last", {"\"prepend_scheme\" is last"}},
      {"mistral", "/pre_tokenizer/replacement", "__", {"\"replacement\" is not one character"}},
  };
  for (const wrong& one : all) {
    folder where;
    json whole = file_of(one.of);
    whole[json::json_pointer(one.at)] = one.value;
    const std::string found = message_of([&] { where.with("tokenizer.json", whole).read(); });
    CAPTURE(one.at);
    CAPTURE(found);
    CHECK(found.starts_with((where.path() / "tokenizer.json").string()));
    for (const std::string& word : one.named) { CHECK(found.find(word) != std::string::npos); }
  }
}

TEST_CASE("a tokenizer.json that is cut off, nested or not what it was is read or refused") {
  std::size_t refused = 0, tried = 0;
  const auto try_text = [&](const std::string& text) {
    folder where;
    where.with_text("tokenizer.json", text);
    ++tried;
    try {
      const engine::tokenizer t = where.read();
      static_cast<void>(t.decode(t.encode("a text \xff of \u00e9")));
    } catch (const std::runtime_error& error) {
      ++refused;
      const std::string message = error.what();
      const bool named = message.starts_with((where.path() / "tokenizer.json").string()) ||
                         message.starts_with("engine::tokenizer");  // of a text
      CHECK_MESSAGE(named, message);
    }
  };
  std::uint32_t random = 20;
  const auto next = [&](std::size_t below) {
    random = random * 1664525u + 1013904223u;
    return (random >> 8) % below;
  };
  for (const char* name : {"unigram", "qwen2", "llama2"}) {
    const std::string whole = file_of(name).dump();
    const std::size_t before = tried;
    for (int i = 0; i < 30; ++i) { try_text(whole.substr(0, next(whole.size()))); }
    // Half of the changes anywhere, half before the vocabulary, where fields are.
    const std::size_t vocabulary = whole.find("\"vocab\"");
    for (int i = 0; i < 60; ++i) {
      std::string changed = whole;
      changed[next(i % 2 == 0 ? whole.size() : vocabulary)] = static_cast<char>(next(256));
      try_text(changed);
    }
    CHECK(tried == before + 90);
  }
  CHECK(refused > tried / 3);
  const std::size_t deep = 100'000;
  const std::string nested = std::string(deep, '[') + std::string(deep, ']');
  folder where;
  const std::string found = message_of(
      [&] { where.with_text("tokenizer.json", "{\"truncation\": " + nested + "}").read(); });
  CHECK(found == (where.path() / "tokenizer.json").string() + ": is nested more than 64 deep");
}

TEST_CASE("what the files beside a vocab.json lack is named") {
  const json vocab = file_of("gpt2")["model"]["vocab"];
  folder where;
  const auto names = [&](const char* word) {
    const std::string found = message_of([&] { where.read(); });
    CAPTURE(found);
    CHECK(found.find(word) != std::string::npos);
  };
  const auto about = [&](json value) { where.with("tokenizer_config.json", value); };
  where.with("vocab.json", vocab);
  names("tokenizer_config.json: cannot be opened");
  about({{"tokenizer_class", "CodeGenTokenizer"}});
  names("\"tokenizer_class\" is CodeGenTokenizer");
  about({{"tokenizer_class", "GPT2Tokenizer"}});
  names("merges.txt: cannot be opened");
  where.with_text("merges.txt", "a b c\n");
  names("\"merges\"");
  where.with_text("merges.txt", "");
  CHECK(where.read().vocab_size() == static_cast<int>(vocab.size()));
  where.with("added_tokens.json", {{"<x>", "y"}});
  names("added_tokens.json: \"<x>\" is not an integer");
  const auto next = static_cast<hunch::token>(vocab.size());
  where.with("added_tokens.json", {{"<x>", next}});
  CHECK(where.read().encode("<x>") == std::vector<hunch::token>{next});
  about({{"tokenizer_class", "GPT2Tokenizer"}, {"eos_token", "<no>"}});
  names("\"eos_token\" is no token");
  about({{"tokenizer_class", "GPT2Tokenizer"}, {"add_bos_token", true}, {"bos_token", "<no>"}});
  names("\"bos_token\" is no added token");
  about({{"tokenizer_class", "Qwen2Tokenizer"}, {"add_prefix_space", true}});
  names("\"add_prefix_space\" is true");
}

}  // namespace tokenizer_json_test

// SPDX-License-Identifier: Apache-2.0
#include <engine/text/vocabulary_and_merges.hpp>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <engine/config_object.hpp>
#include <engine/text/json_fields.hpp>
#include <engine/text/tokenizer_json.hpp>

namespace engine::text {
namespace {

using nlohmann::json;

/// What Qwen2 cuts text by (Qwen2 technical report, arXiv:2407.10671), and Dream, which was made of
/// it.
constexpr const char* words_of_qwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The parts that these files leave to a class of a program.
json rules_of(const config_object& about) {
  const std::string name = about.string("tokenizer_class");
  const bool prefix = about.boolean("add_prefix_space", false);
  const json bytes = {{"type", "ByteLevel"}};
  json own = bytes;
  own["add_prefix_space"] = prefix;
  if (name == "GPT2Tokenizer") { return {{"pre_tokenizer", std::move(own)}, {"decoder", bytes}}; }
  if (name == "Qwen2Tokenizer" || name == "DreamTokenizer") {
    if (prefix) { about.refuse("add_prefix_space", "is true; not supported with " + name); }
    own["use_regex"] = false;
    const json words = {{"type", "Split"},
                        {"pattern", {{"Regex", words_of_qwen2}}},
                        {"behavior", "Isolated"},
                        {"invert", false}};
    return {{"normalizer", {{"type", "NFC"}}},
            {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {words, std::move(own)}}}},
            {"decoder", bytes}};
  }
  about.refuse("tokenizer_class", "is " + name +
                                      "; supported without a tokenizer.json are GPT2Tokenizer, "
                                      "Qwen2Tokenizer and DreamTokenizer");
}

json read_merges(const std::filesystem::path& file) {
  std::ifstream in = opened(file, max_tokenizer_bytes);
  json out = json::array();
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) { line.pop_back(); }
    if (!line.empty() && !line.starts_with("#version")) { out.push_back(line); }
  }
  return out;
}

json added(const std::string& content, int id, bool special) {
  return {{"content", content}, {"id", id}, {"special", special}, {"normalized", false}};
}

/// By number, so that each is there once.
std::map<int, json> read_added(const config_object& about, const json& vocabulary,
                               const std::filesystem::path& others) {
  std::map<int, json> out;
  if (std::filesystem::exists(others)) {
    const json values = parsed_json(others);
    const config_object of(values, others.string());
    for (const auto& [content, id] : values.items()) {
      const int t = of.integer(content, config::max_tokens - 1);
      out[t] = added(content, t, true);
    }
  }
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token", "mask_token"}) {
    if (!about.has(name)) { continue; }
    const json& value = about.at(name);
    const std::string content =
        value.is_object() ? about.child(name).string("content") : about.string(name);
    const auto found = vocabulary.find(content);
    if (found != vocabulary.end() && found->is_number_unsigned()) {
      out[found->get<int>()] = added(content, found->get<int>(), true);
    }
  }
  if (!about.has("added_tokens_decoder")) { return out; }
  const config_object listed = about.child("added_tokens_decoder");
  for (const auto& [number, ignored] : about.at("added_tokens_decoder").items()) {
    int t = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), t);
    if (error != std::errc() || end != number.data() + number.size()) {
      listed.refuse(number, "is no number of a token");
    }
    listed.child(number).string("content");
    out[t] = listed.at(number);
    out[t]["id"] = t;
  }
  return out;
}

/// Puts the token in front of texts, if they are to have one.
json read_front(const config_object& about, const json& all) {
  if (!about.boolean("add_bos_token", false)) { return nullptr; }
  const json& value = about.at("bos_token");
  const std::string name =
      value.is_object() ? about.child("bos_token").string("content") : about.string("bos_token");
  for (const json& one : all) {
    if (one["content"] != name) { continue; }
    return {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", name}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{name, {{"ids", json::array({one["id"]})}}}}}};
  }
  about.refuse("bos_token", "is no added token");
}

}  // namespace

std::unique_ptr<loaded_tokenizer> load_vocabulary_and_merges(
    const std::filesystem::path& vocabulary) {
  const std::filesystem::path folder = vocabulary.parent_path();
  const std::filesystem::path about_file = folder / "tokenizer_config.json";
  const json about_values = parsed_json(about_file);
  const config_object about(about_values, about_file.string());
  json all = rules_of(about);
  all["model"] = {{"type", "BPE"},
                  {"vocab", parsed_json(vocabulary, max_tokenizer_bytes)},
                  {"merges", read_merges(folder / "merges.txt")}};
  all["added_tokens"] = json::array();
  for (auto& [id, one] : read_added(about, all["model"]["vocab"], folder / "added_tokens.json")) {
    all["added_tokens"].push_back(std::move(one));
  }
  all["post_processor"] = read_front(about, all["added_tokens"]);
  return tokenizer_of_json(all, vocabulary);
}

}  // namespace engine::text

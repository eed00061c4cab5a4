// SPDX-License-Identifier: Apache-2.0
#include <engine/text/model_json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/text/bpe.hpp>
#include <engine/text/json_fields.hpp>
#include <engine/text/spellings.hpp>
#include <engine/text/unigram.hpp>

namespace engine::text {
namespace {

using nlohmann::json;

spellings read_vocabulary(const config_object& of) {
  const json& vocabulary = of.at("vocab");
  if (!vocabulary.is_object()) { of.refuse("vocab", "is not an object: token to number"); }
  std::vector<std::string> by_token;
  for (const auto& [spelling, number] : vocabulary.items()) {
    if (!number.is_number_unsigned() || number >= config::max_tokens) {
      of.refuse("vocab", "has no number for \"" + spelling + "\"");
    }
    const auto t = number.get<std::size_t>();
    if (!is_dense(t, vocabulary.size())) {
      of.refuse("vocab", "has the number " + number.dump() + " among " +
                             std::to_string(vocabulary.size()) + " tokens");
    }
    if (t >= by_token.size()) { by_token.resize(t + 1); }
    if (!by_token[t].empty()) { of.refuse("vocab", "has the number " + number.dump() + " twice"); }
    by_token[t] = spelling;
  }
  if (by_token.empty()) { of.refuse("vocab", "is empty"); }
  return spellings(std::move(by_token));
}

/// "a b" or ["a", "b"].
std::pair<std::string, std::string> read_pair(const config_object& of, const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    of.refuse("merges", "has " + merge.dump(-1, ' ', true) + ", and pairs of tokens are expected");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<bpe::merge> read_merges(const config_object& of, const spellings& tokens) {
  const json& list = of.at("merges");
  if (!list.is_array()) { of.refuse("merges", "is not a list"); }
  std::vector<bpe::merge> out;
  out.reserve(list.size());
  for (const json& one : list) {
    const auto [left, right] = read_pair(of, one);
    const bpe::merge m{tokens.of(left), tokens.of(right), tokens.of(left + right)};
    for (const hunch::token t : {m.left, m.right, m.joined}) {
      if (t == hunch::no_token) {
        of.refuse("merges", "has " + one.dump(-1, ' ', true) + ", of which something is no token");
      }
    }
    out.push_back(m);
  }
  return out;
}

std::unique_ptr<subwords> read_bpe(const config_object& of) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    expect_nothing(of, key);
  }
  spellings tokens = read_vocabulary(of);
  const std::vector<bpe::merge> merges = read_merges(of, tokens);
  bpe::options how{.ignore_merges = of.boolean("ignore_merges", false),
                   .byte_fallback = of.boolean("byte_fallback", false),
                   .fuse_unknown = of.boolean("fuse_unk", false)};
  if (of.has("unk_token")) {
    how.unknown = tokens.of(of.string("unk_token"));
    if (how.unknown == hunch::no_token) { of.refuse("unk_token", "is no token"); }
  }
  return std::make_unique<bpe>(std::move(tokens), merges, how);
}

std::unique_ptr<subwords> read_unigram(const config_object& of) {
  const json& list = of.at("vocab");
  if (!list.is_array() || list.empty()) {
    of.refuse("vocab", "is not a list of tokens and scores");
  }
  std::vector<std::string> by_token;
  std::vector<double> scores;
  for (const json& one : list) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number() ||
        !std::isfinite(one[1].get<double>())) {
      of.refuse("vocab", "has " + one.dump(-1, ' ', true) + ", and [token, score] is expected");
    }
    by_token.push_back(one[0].get<std::string>());
    if (by_token.back().size() > unigram::longest) {
      of.refuse("vocab", "has a token of " + std::to_string(by_token.back().size()) +
                             " bytes; the longest that is supported has " +
                             std::to_string(unigram::longest));
    }
    scores.push_back(one[1].get<double>());
  }
  unigram::options how;
  how.byte_fallback = of.boolean("byte_fallback", false);
  if (of.has("unk_id")) {
    how.unknown = of.integer("unk_id", static_cast<int>(by_token.size()) - 1);
  }
  return std::make_unique<unigram>(spellings(std::move(by_token)), std::move(scores), how);
}

}  // namespace

std::unique_ptr<subwords> read_model(const config_object& described) {
  const std::string type = described.has("type") ? described.string("type") : "BPE";
  if (type == "BPE") { return read_bpe(described); }
  if (type == "Unigram") { return read_unigram(described); }
  refuse_type(described, "BPE and Unigram");
}

}  // namespace engine::text

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/text/added_tokens.hpp>
#include <engine/text/bpe.hpp>
#include <engine/text/byte_level.hpp>
#include <engine/text/pattern.hpp>
#include <engine/text/pieces.hpp>
#include <engine/text/unigram.hpp>
#include <engine/text/utf8.hpp>

/// What tokenizers are made of, one by one.

namespace {

using namespace engine::text;
using tokens = std::vector<hunch::token>;
using words = std::vector<std::string>;

words cut(const std::string& text, const pattern& by, split_behavior behavior,
          bool invert = false) {
  pieces of(text, true);
  split(of, by, behavior, invert);
  words out;
  for (const range& at : of.at) { out.emplace_back(at.of(of.text)); }
  return out;
}

/// The matches, each in brackets.
std::string matched(const char* expression, const std::string& text) {
  std::string out;
  for (const range& match : pattern::expression(expression).matches(text)) {
    out += "<" + std::string(match.of(text)) + ">";
  }
  return out;
}

tokens tokens_of(const subwords& model, const std::string& text) {
  tokens out;
  model.encode(pieces(text, true), out);
  return out;
}

}  // namespace

TEST_CASE("what is no UTF-8 is replaced part by part, as the Unicode standard shows") {
  // Tables 3-8 to 3-11 of its section 3.9.
  const std::string r(replacement_character);
  const std::vector<std::pair<std::string, std::string>> all = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"a\xF0\x9F\x98", "a" + r},
      {"a\xF0\x9F\x98\x80z", "a\xF0\x9F\x98\x80z"}};
  for (const auto& [broken, expected] : all) { CHECK(well_formed(broken) == expected); }
  for (const char32_t code : {U'\0', U'a', U'\u07ff', U'\u0800', U'\ufffd', U'\U0010ffff'}) {
    const character c = first_character(encoded(code));
    CHECK(c.code == code);
    CHECK(c.bytes == encoded(code).size());
    CHECK(c.is == character::state::whole);
  }
}

TEST_CASE("characters that come in parts are taken whole") {
  const std::string_view some[] = {"a",    "\xC3", "\xA9",         "\xE4\xB8",
                                   "\xAD", "\xF0", "\x9F\x98\x80", "\xFF"};
  std::mt19937 random(7);
  for (int run = 0; run < 400; ++run) {
    std::string all, shown, held;
    for (int i = 0; i < 30; ++i) {
      const std::string_view part = some[random() % std::size(some)];
      all += part;
      held += part;
      const std::string now = take_characters(held);
      CHECK(well_formed(now) == now);
      shown += now;
    }
    CHECK(shown + well_formed(held) == well_formed(all));
  }
}

TEST_CASE("every byte has a letter of its own") {
  std::string bytes, letters;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
    letters += letter_of(static_cast<unsigned char>(byte));
  }
  CHECK(spelled(bytes) == letters);
  CHECK(unspelled(letters) == bytes);
  CHECK(letter_of(' ') == "\u0120");
  CHECK(letter_of('\n') == "\u010a");
  CHECK(letter_of(0xAD) == "\u0143");
  for (const char* none : {" ", "\u0144", "\u4e2d", "\xFF"}) { CHECK_FALSE(unspelled(none)); }
}

TEST_CASE("pieces by what becomes of matches") {
  const pattern comma = pattern::literal(",");
  CHECK(cut("a,,b", comma, split_behavior::isolated) == words{"a", ",", ",", "b"});
  CHECK(cut("a,,b", comma, split_behavior::contiguous) == words{"a", ",,", "b"});
  CHECK(cut("a,,b", comma, split_behavior::merged_with_previous) == words{"a,", ",", "b"});
  CHECK(cut("a,,b", comma, split_behavior::merged_with_next) == words{"a", ",", ",b"});
  CHECK(cut("a,,b", comma, split_behavior::removed) == words{"a", "b"});
  CHECK(cut("a,,b", comma, split_behavior::removed, true) == words{",", ","});
  CHECK(cut("", comma, split_behavior::isolated).empty());
  CHECK(cut("ab", pattern::expression("x*"), split_behavior::isolated) == words{"a", "b"});
}

TEST_CASE("expressions mean what Oniguruma takes them for") {
  CHECK(matched("\\s+", "a\u00a0\u2003b\u0085c\u180ed") == "<\u00a0\u2003><\u0085>");
  CHECK(matched("[^\\s]+", "a\u180eb c") == "<a\u180eb><c>");
  CHECK(matched("\\S", " \u3000x") == "<x>");
  CHECK(matched("\\d", "1\u0663\u00bd") == "<1><\u0663>");
  CHECK(matched("(?i:'s)", "'S's'\u017f's") == "<'S><'s><'\u017f><'s>");
  CHECK(matched("\\p{Han}", "\u4e2d\u3001a") == "<\u4e2d>");  // what is of that script alone
  CHECK(matched("[\\]\\-]", "]a-") == "<]><->");
  CHECK(matched("a\\x{20}?b", "ab a b") == "<ab><a b>");
  CHECK(matched("a.", "a\ra\n") == "<a\r>");
  CHECK(matched("\\u4e2d|\\x{6587}", "\u4e2d\u6587") == "<\u4e2d><\u6587>");
  CHECK(matched("a.", "a\nab") == "<ab>");
  CHECK_THROWS_AS(pattern::expression("\\R"), std::invalid_argument);
  CHECK_THROWS_AS(pattern::expression("a\\"), std::invalid_argument);
}

TEST_CASE("the longest of the added tokens that begin somewhere is found") {
  const added_tokens all({{.content = "<a>", .id = 1},
                          {.content = "<a>>", .id = 2},
                          {.content = "", .id = 3},
                          {.content = "|", .id = 4, .takes_left = true, .takes_right = true}});
  const auto found = [&](std::string_view text) {
    std::string out;
    for (const auto& part : all.parts(text)) {
      const bool between = part.id == hunch::no_token;
      out += between ? "[" + std::string(part.at.of(text)) + "]" : std::to_string(part.id);
    }
    return out;
  };
  CHECK(found("x<a><a>>y") == "[x]12[y]");
  CHECK(found("<a") == "[<a]");
  CHECK(found("").empty());
  CHECK(found("a \u3000|\n b") == "[a]4[b]");
  CHECK(found("  |  |  ") == "44");
}

TEST_CASE("pairs are merged in the order in which they were learned, from the left") {
  const words named = {"?", "a", "b", "ab", "aa", "aab", "<0x63>", "\u00e9"};
  const std::vector<bpe::merge> merges = {{1, 2, 3}, {1, 1, 4}, {4, 2, 5}, {1, 3, 5}};
  const bpe model(
      spellings(named), merges,
      {.ignore_merges = false, .byte_fallback = true, .fuse_unknown = false, .unknown = 0});
  CHECK(tokens_of(model, "aaa") == tokens{4, 1});
  CHECK(tokens_of(model, "aab") == tokens{5});
  CHECK(tokens_of(model, "aaab") == tokens{4, 3});
  CHECK(tokens_of(model, "caz") == tokens{6, 1, 0});
  CHECK(tokens_of(model, "zz\u00e9") == tokens{0, 0, 7});
  CHECK(tokens_of(model, "").empty());
  const bpe fused(
      spellings(named), {},
      {.ignore_merges = true, .byte_fallback = false, .fuse_unknown = true, .unknown = 0});
  CHECK(tokens_of(fused, "zzbz") == tokens{0, 2, 0});
  CHECK(tokens_of(fused, "aab") == tokens{5});
  CHECK(tokens_of(fused, "aaab") == tokens{1, 1, 1, 2});
  const bpe silent(spellings(named), merges, {});
  CHECK(tokens_of(silent, "azb") == tokens{3});  // what is unknown leaves nothing
}

TEST_CASE("a long piece is merged as the definition says") {
  const words named = {"a",  "b",    "c", "ab", "bc",     "abc",    "aa",
                       "cc", "abab", "d", "da", "<0x65>", "<0x65>b"};
  const std::vector<bpe::merge> merges = {{0, 1, 3}, {1, 2, 4}, {3, 2, 5},  {0, 0, 6},
                                          {2, 2, 7}, {3, 3, 8}, {9, 0, 10}, {11, 1, 12}};
  const bpe model(spellings(named), merges, {.ignore_merges = false, .byte_fallback = true});
  std::mt19937 random(5);
  for (int run = 0; run < 50; ++run) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      text += static_cast<char>('a' + static_cast<int>(random() % 5));
    }
    tokens slow;
    for (const char c : text) { slow.push_back(c == 'e' ? 11 : c == 'd' ? 9 : c - 'a'); }
    for (;;) {  // the first pair of the least rank, again and again
      std::size_t best = merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < slow.size(); ++i) {
        for (std::size_t m = 0; m < best; ++m) {
          if (merges[m].left == slow[i] && merges[m].right == slow[i + 1]) {
            best = m;
            at = i;
          }
        }
      }
      if (best == merges.size()) { break; }
      slow[at] = merges[best].joined;
      slow.erase(slow.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    CHECK(tokens_of(model, text) == slow);
  }
}

TEST_CASE("a piece becomes its most probable tokens") {
  const words named = {"?", "a", "b", "ab", "abb", "<0x63>"};
  const std::vector<double> scores = {0.0, -1.0, -1.5, -2.0, -4.5, 0.0};
  const unigram model(spellings(named), scores, {.unknown = 0, .byte_fallback = true});
  std::mt19937 random(3);
  for (int run = 0; run < 50; ++run) {
    std::string text, back;
    for (int i = 0; i < 10; ++i) { text += random() % 2 == 0 ? 'a' : 'b'; }
    double score = 0.0;
    for (const hunch::token t : tokens_of(model, text)) {
      score += scores[static_cast<std::size_t>(t)];
      back += named[static_cast<std::size_t>(t)];
    }
    CHECK(back == text);
    // The best of all ways, from the end.
    std::vector<double> best(text.size() + 1, -std::numeric_limits<double>::infinity());
    best[text.size()] = 0.0;
    for (std::size_t at = text.size(); at-- > 0;) {
      for (std::size_t t = 1; t < named.size(); ++t) {
        if (text.compare(at, named[t].size(), named[t]) != 0) { continue; }
        best[at] = std::max(best[at], scores[t] + best[at + named[t].size()]);
      }
    }
    CHECK(score == doctest::Approx(best[0]));
  }
  CHECK(tokens_of(model, "acz") == tokens{1, 0});  // one for both: not all of their bytes are there
  CHECK(tokens_of(model, "aca") == tokens{1, 5, 1});
  const unigram strict(spellings(named), scores, {});
  CHECK_THROWS_WITH(tokens_of(strict, "az"), doctest::Contains("'z' is no token"));
}

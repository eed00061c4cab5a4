// SPDX-License-Identifier: Apache-2.0

// The example grammar against std::regex: a token is allowed if and only if some text that matches
// goes on so. And a decoder that follows it, exactly.

#include <cstdint>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <grammar/regular_grammar.hpp>

namespace {

using grammar::regular_grammar;

const std::vector<std::string> vocabulary{"<end>", "a", "b", "ab", "ba", "c", "", "aab", "-"};
constexpr hunch::token end_token = 0;

regular_grammar grammar_of(std::string_view expression) {
  return {expression, static_cast<std::int32_t>(vocabulary.size()),
          [](hunch::token t) { return std::string_view(vocabulary[static_cast<std::size_t>(t)]); },
          end_token};
}

/// All texts over the alphabet of the vocabulary with up to `length` bytes.
std::vector<std::string> all_texts(std::size_t length) {
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) { continue; }
    const std::string text = texts[i];
    for (const char c : {'a', 'b', 'c', '-'}) { texts.push_back(text + c); }
  }
  return texts;
}

std::vector<bool> allowed_after(const regular_grammar& g, regular_grammar::state s) {
  std::vector<std::uint32_t> words(1, 0xffffffffu);
  g.allowed(s, words.data());
  std::vector<bool> out;
  for (std::size_t t = 0; t < vocabulary.size(); ++t) { out.push_back((words[0] >> t & 1u) != 0); }
  return out;
}

TEST_CASE("what is allowed is what some match goes on with") {
  for (const char* expression :
       {"a", "ab|ba", "(ab)*", "a+b?", "(a|b)*c", "[ab]{2,3}", "a{2}", "(a|ab)(c|ba)", "[^ab]+",
        "-?[a-c]+(-[abc]{1,2})?", "a(b|)c?", "((a|b)+-){2}", "b{1,}a", "(a?b?)c"}) {
    CAPTURE(std::string(expression));
    const regular_grammar g = grammar_of(expression);
    const std::regex reference(expression);
    std::vector<std::string> matches;
    for (const std::string& text : all_texts(7)) {
      if (std::regex_match(text, reference)) { matches.push_back(text); }
    }
    REQUIRE(!matches.empty());
    const auto begins = [&](const std::string& text) {
      for (const std::string& m : matches) {
        if (m.compare(0, text.size(), text) == 0) { return true; }
      }
      return false;
    };
    // Every text of tokens up to four bytes: what it leaves of the seven is enough to complete it.
    const auto walk = [&](auto&& self, const std::string& text, regular_grammar::state s) -> void {
      CHECK((s >= 0) == begins(text));
      const std::vector<bool> allowed = allowed_after(g, s);
      CHECK(allowed[0] == std::regex_match(text, reference));
      for (std::size_t t = 1; t < vocabulary.size(); ++t) {
        const std::string longer = text + vocabulary[t];
        if (longer.size() > 4) { continue; }
        CHECK(allowed[t] == (!vocabulary[t].empty() && begins(longer)));
        if (allowed[t]) { self(self, longer, g.advance(s, static_cast<hunch::token>(t))); }
      }
    };
    walk(walk, "", regular_grammar::start());
  }
}

TEST_CASE("after what is not allowed nothing is") {
  const regular_grammar g = grammar_of("ab");
  const auto dead = g.advance(regular_grammar::start(), 2);
  CHECK(dead < 0);
  CHECK(allowed_after(g, dead) == std::vector<bool>(vocabulary.size(), false));
  CHECK(g.advance(dead, 1) < 0);
  CHECK(g.advance(regular_grammar::start(), end_token) < 0);
}

TEST_CASE("characters of several bytes") {
  const std::vector<std::string> pieces{"<end>", "\xc3", "\xa9", "\xc3\xa9", "x", "\n"};
  const regular_grammar g{
      "(.[^x])+", 6, [&](hunch::token t) { return std::string_view(pieces[std::size_t(t)]); }, 0};
  const auto allowed = [&](regular_grammar::state s) {
    std::uint32_t word = 0;
    g.allowed(s, &word);
    return word;
  };
  const auto half = g.advance(regular_grammar::start(), 1);
  CHECK(allowed(half) == 0b000100u);  // only the second byte of the character
  const auto one = g.advance(half, 2);
  CHECK(one == g.advance(regular_grammar::start(), 3));
  CHECK(one == g.advance(regular_grammar::start(), 4));
  CHECK(allowed(one) == 0b101010u);  // not x; a newline is allowed, and half a character
  CHECK(allowed(regular_grammar::start()) == 0b011010u);
}

TEST_CASE("expressions that are wrong") {
  for (const char* expression : {"(a", "a)", "*a", "[a", "a{2,1}", "a{0}", "a{x}", "a\\", "[b-a]",
                                 "a{9999}", "a|*", "[^\\d-x]"}) {
    CAPTURE(std::string(expression));
    CHECK_THROWS_AS(grammar_of(expression), std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(grammar_of("([ab][ab][ab][ab][ab][ab]){400}|([ab]*a[ab]{14})"),
                       "regular expression: its automaton has too many states",
                       std::invalid_argument);
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) { out += text; }
  return out;
}

std::string refusal_of(const std::string& expression) {
  try {
    grammar_of(expression);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return {};
}

TEST_CASE("groups inside one another have a limit") {
  const auto nested = [](int depth, const std::string& after = "") {
    return repeated("(", depth) + "a" + repeated(")" + after, depth);
  };
  CHECK(refusal_of(nested(100)).empty());
  CHECK(refusal_of(repeated("(a)", 1000)).empty());  // one after the other
  for (const std::string& bomb :
       {nested(101), nested(100000), repeated("(", 100000), repeated("(a|", 100000),
        nested(100000, "*"), repeated("((", 50000) + repeated(")?)+", 50000)}) {
    CHECK(refusal_of(bomb) == "regular expression: more than 100 groups inside one another at " +
                                  std::to_string(bomb.starts_with("(a") ? 301 : 101));
  }
}

TEST_CASE("repetitions that multiply have a limit") {
  for (const char* bomb :
       {"(a{1000}){1000}", "((a{1000}){1000}){1000}", "(((((((((){1000}){1000}){1000}){1000})))))",
        "(a{0,1000}){0,1000}", "((a*){1000}){1000}", "(((a|b|c){1000}|d){1000}|e){1000}",
        "(.{1000}){1000}", "((a?){1,}){1000,}b{1000}(c{1000}){9}"}) {
    CAPTURE(std::string(bomb));
    CHECK(refusal_of(bomb) ==
          "regular expression: it has more than 16384 parts, repetitions written out");
  }
  CHECK(refusal_of(repeated("a", 1 << 20)).find("16384 parts") != std::string::npos);
  CHECK(refusal_of("(a?b?){900}c").empty());
  // As many states as there may be, in a row: a text of just that length matches.
  const regular_grammar row = grammar_of("a{1000}a{1000}a{1000}a{1000}");
  CHECK(row.states() == 4001);
  regular_grammar::state s = regular_grammar::start();
  for (int i = 0; i < 4000; ++i) {
    CHECK(allowed_after(row, s)[end_token] == false);
    s = row.advance(s, 1);
  }
  CHECK(allowed_after(row, s)[end_token]);
  CHECK(row.advance(s, 1) < 0);
  CHECK(refusal_of("a{1000}a{1000}a{1000}a{1000}a{1000}") ==
        "regular expression: its automaton has too many states");
  CHECK(refusal_of("(a?){1000}(b?){1000}").find("too many states") != std::string::npos);
}

}  // namespace

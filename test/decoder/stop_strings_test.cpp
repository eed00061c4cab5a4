// SPDX-License-Identifier: Apache-2.0

// Stop strings in a text that grows token by token.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/stop.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

/// Feeds texts one by one; the index of the one that ends the text, or -1.
int ends_at(const stop_strings& stops, stop_tail& tail,
            const std::vector<std::string_view>& texts) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (stops.feed(tail, texts[i])) { return static_cast<int>(i); }
  }
  return -1;
}

TEST_CASE("stop strings across tokens") {
  const stop_strings stops({"</s>", "\n\n", "abcabd"});
  CHECK_FALSE(stops.empty());
  CHECK(stop_strings{}.empty());
  CHECK(stops.longest() == 6);
  const auto check = [&](const std::vector<std::string_view>& texts, int at, std::size_t cut) {
    stop_tail tail;
    CHECK(ends_at(stops, tail, texts) == at);
    if (at >= 0) { CHECK(tail.cut == cut); }
  };
  check({"a", "b", "c"}, -1, 0);
  check({"x</s>yz"}, 0, 6);
  check({"x<", "/", "s", ">y", "z"}, 3, 5);
  check({"\n", "a", "\n", "\n"}, 3, 2);
  check({"", "", "\n\n"}, 2, 2);
  check({"abc", "abc", "abd"}, 2, 6);  // a match that overlaps a failed one
  check({"</s></s>"}, 0, 8);           // the first one counts
  check({"\n\n</s>"}, 0, 6);
  check({"</s>\n\n"}, 0, 6);
}

TEST_CASE("stop strings against a search of the whole text") {
  dice random{31};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> wanted;
    for (int i = random.below(3); i >= 0; --i) {
      std::string s;
      for (int j = random.below(4); j >= 0; --j) { s += static_cast<char>('a' + random.below(2)); }
      wanted.push_back(s);
    }
    const stop_strings stops(wanted);
    stop_tail tail;
    std::string whole;
    for (int i = 0; i < 12; ++i) {
      std::string piece;
      for (int j = random.below(4); j > 0; --j) {
        piece += static_cast<char>('a' + random.below(2));
      }
      whole += piece;
      std::size_t first = std::string::npos;
      for (const std::string& s : wanted) { first = std::min(first, whole.find(s)); }
      const bool found = stops.feed(tail, piece);
      CHECK(found == (first != std::string::npos));
      if (found) {
        CHECK(tail.cut == whole.size() - first);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace hunch::test

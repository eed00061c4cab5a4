// SPDX-License-Identifier: Apache-2.0

// Stop strings that are fed piece by piece against a search of the whole text.

#include <algorithm>
#include <string>
#include <vector>

#include <hunch/decoder/stop.hpp>
#include "bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hunch::test::must;
  hunch::test::bytes in{data, size};
  const auto word = [&in](std::int32_t longest) {
    std::string s;
    for (std::int32_t n = in.below(longest); n > 0; --n) {
      s += static_cast<char>(in.below(4) == 3 ? in.byte() : 'a' + in.below(2));
    }
    return s;
  };
  std::vector<std::string> wanted;
  for (std::int32_t n = in.below(4); n >= 0; --n) {
    const std::string s = word(9);
    if (!s.empty()) { wanted.push_back(s); }
  }
  if (wanted.empty()) { return 0; }
  const hunch::stop_strings stops(wanted);
  hunch::stop_tail tail;
  std::string whole;
  while (!in.empty()) {
    const std::string piece = word(12);
    whole += piece;
    std::size_t first = std::string::npos;
    for (const std::string& s : wanted) { first = std::min(first, whole.find(s)); }
    const bool found = stops.feed(tail, piece);
    must(found == (first != std::string::npos), "found what is there");
    if (found) {
      must(tail.cut == whole.size() - first, "the cut");
      return 0;
    }
    must(tail.text.size() < std::max<std::size_t>(stops.longest(), 1), "a bounded tail");
  }
  return 0;
}

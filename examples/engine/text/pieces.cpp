// SPDX-License-Identifier: Apache-2.0
#include <engine/text/pieces.hpp>

#include <cstddef>

namespace engine::text {
namespace {

struct segment {
  range at;
  bool matches = false;
};

/// All of a piece, in segments that match and others between them.
std::vector<segment> segments(const pieces& of, const range& piece, const pattern& by,
                              bool invert) {
  std::vector<segment> out;
  std::size_t end = piece.begin;
  for (const range& match : by.matches(piece.of(of.text))) {
    const range whole{piece.begin + match.begin, piece.begin + match.end};
    if (end != whole.begin) { out.push_back({{end, whole.begin}, invert}); }
    out.push_back({whole, !invert});
    end = whole.end;
  }
  if (end != piece.end) { out.push_back({{end, piece.end}, invert}); }
  return out;
}

/// Whether a segment becomes one piece with the one before it.
bool joined(const segment& before, const segment& after, split_behavior behavior) {
  switch (behavior) {
    case split_behavior::contiguous:
      return before.matches == after.matches;
    case split_behavior::merged_with_previous:
      return !before.matches && after.matches;
    case split_behavior::merged_with_next:
      return before.matches && !after.matches;
    case split_behavior::isolated:
    case split_behavior::removed:
      return false;
  }
  return false;
}

}  // namespace

void split(pieces& of, const pattern& by, split_behavior behavior, bool invert) {
  std::vector<range> out;
  for (const range& piece : of.at) {
    const std::vector<segment> all = segments(of, piece, by, invert);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (behavior == split_behavior::removed && all[i].matches) { continue; }
      if (i > 0 && joined(all[i - 1], all[i], behavior)) {
        out.back().end = all[i].at.end;
      } else {
        out.push_back(all[i].at);
      }
    }
  }
  std::erase_if(out, [](const range& piece) { return piece.begin == piece.end; });
  of.at = std::move(out);
}

}  // namespace engine::text

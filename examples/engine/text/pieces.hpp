// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/text/pattern.hpp>
#include <engine/text/range.hpp>

namespace engine::text {

/// A text that is being cut into what is made of tokens one by one.
struct pieces {
  std::string text;
  std::vector<range> at;  ///< none is empty; what lies between them is left out
  bool first = false;     ///< begins where the whole text begins

  pieces(std::string all, bool is_first)
      : text(std::move(all)), at{{0, text.size()}}, first(is_first) {}
};

/// What becomes of the matches of a pattern: pieces of their own, one with those beside them, or
/// with what is in front of or after them; or nothing.
enum class split_behavior { isolated, contiguous, merged_with_previous, merged_with_next, removed };

/// Cuts every piece. \param invert  takes what does not match for what does.
void split(pieces& of, const pattern& by, split_behavior behavior, bool invert = false);

/// Replaces the text of every piece: `rewritten(piece, first)` is the new one.
template <class Rewritten>
void rewrite(pieces& of, Rewritten&& rewritten) {
  std::string text;
  text.reserve(of.text.size());
  bool first = of.first;
  for (range& piece : of.at) {
    const std::size_t begin = text.size();
    text += rewritten(piece.of(of.text), first);
    piece = {begin, text.size()};
    first = false;
  }
  of.text = std::move(text);
  std::erase_if(of.at, [](const range& piece) { return piece.begin == piece.end; });
}

}  // namespace engine::text

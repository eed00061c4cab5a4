// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hunch {

/// The end of a text as far as it may begin a stop string.
struct stop_tail {
  std::string text;
  /// After a match: how many bytes at the end of the text the caller cuts to drop the stop string
  /// and what followed it in the token that completed it.
  std::size_t excess = 0;
};

/// Finds the first stop string in a text that grows token by token, so that an accepted run ends
/// where plain decoding would have ended. A match may begin in one token and end in a later one;
/// it is reported with the token that completes it.
class stop_strings {
 public:
  stop_strings() = default;
  explicit stop_strings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    for (const std::string& s : strings_) { longest_ = std::max(longest_, s.size()); }
  }

  bool empty() const { return strings_.empty(); }
  std::size_t longest() const { return longest_; }

  /// Appends the text of one token. True if the text now contains a stop string.
  bool feed(stop_tail& tail, std::string_view text) const {
    tail.text.append(text);
    std::size_t first = std::string::npos;
    for (const std::string& s : strings_) { first = std::min(first, tail.text.find(s)); }
    if (first != std::string::npos) {
      tail.excess = tail.text.size() - first;
      return true;
    }
    if (tail.text.size() >= longest_) { tail.text.erase(0, tail.text.size() - (longest_ - 1)); }
    return false;
  }

 private:
  std::vector<std::string> strings_;
  std::size_t longest_ = 0;
};

}  // namespace hunch

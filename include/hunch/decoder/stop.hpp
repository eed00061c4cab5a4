// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hunch {

/// The end of a text as far as it may begin a stop string: at most `stop_strings::tail_size()`
/// bytes at any time, however long the texts of tokens are.
struct stop_tail {
  std::string text;
  /// After a match: how many bytes at the end of the text the caller cuts to drop the stop string
  /// and what followed it in the token that completed it.
  std::size_t cut = 0;
};

/// Finds the first stop string in a text that grows token by token, so that an accepted run ends
/// where plain decoding would have ended. A match may begin in one token and end in a later one;
/// it is reported with the token that completes it.
class stop_strings {
 public:
  stop_strings() = default;
  /// \param strings none of which is empty: that would be in every text.
  explicit stop_strings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    for (const std::string& s : strings_) { longest_ = std::max(longest_, s.size()); }
  }

  bool empty() const { return strings_.empty(); }
  std::size_t longest() const { return longest_; }
  /// Bytes of a tail, at most: as many as can begin a stop string, and what may complete it.
  std::size_t tail_size() const { return 2 * max_begun(); }

  /// Appends the text of one token. True if the text now contains a stop string: then `tail.cut` is
  /// set, and the tail takes no more. Does not allocate where tail.text has room for `tail_size()`.
  bool feed(stop_tail& tail, std::string_view text) const {
    const std::size_t before = tail.text.size();
    tail.text.append(text.substr(0, max_begun()));
    std::size_t first = std::string::npos;
    for (const std::string& s : strings_) {
      std::size_t at = tail.text.find(s);
      if (at == std::string::npos) {  // it does not begin in the tail, so it lies in the token
        at = text.find(s);
        at = at == std::string::npos ? at : before + at;
      }
      first = std::min(first, at);
    }
    if (first != std::string::npos) {
      tail.cut = before + text.size() - first;
      return true;
    }
    if (text.size() >= max_begun()) {
      tail.text.assign(text.substr(text.size() - max_begun()));
    } else if (tail.text.size() > max_begun()) {
      tail.text.erase(0, tail.text.size() - max_begun());
    }
    return false;
  }

 private:
  /// Bytes of a stop string that is not complete.
  std::size_t max_begun() const { return longest_ == 0 ? 0 : longest_ - 1; }

  std::vector<std::string> strings_;
  std::size_t longest_ = 0;
};

}  // namespace hunch

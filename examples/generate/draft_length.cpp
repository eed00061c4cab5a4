// SPDX-License-Identifier: Apache-2.0
#include "generate/draft_length.hpp"

#include <algorithm>
#include <cstddef>

#include <command_line/flags.hpp>

namespace generate {

std::string text_of(const draft_lengths& lengths) {
  std::string out;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i > 0) { out += '/'; }
    for (std::size_t step = 0; step < lengths[i].size(); ++step) {
      if (step > 0) { out += ','; }
      out += std::to_string(lengths[i][step]);
    }
  }
  return out;
}

draft_lengths draft_lengths_of(std::string_view flag, std::string_view text, std::int32_t most) {
  draft_lengths out(1);
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find_first_of(",/", from), text.size());
    out.back().push_back(
        command_line::number<std::int32_t>(flag, text.substr(from, to - from), 0, most));
    if (to < text.size() && text[to] == '/') { out.emplace_back(); }
    from = to + 1;
  }
  return out;
}

}  // namespace generate

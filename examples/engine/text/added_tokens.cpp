// SPDX-License-Identifier: Apache-2.0
#include <engine/text/added_tokens.hpp>

#include <algorithm>
#include <utility>

#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

std::size_t space_at_front(std::string_view text) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const character c = first_character(text.substr(bytes));
    if (!is_white_space(c.code)) { break; }
    bytes += c.bytes;
  }
  return bytes;
}

std::size_t space_at_back(std::string_view text) {
  std::size_t begin = text.size();
  for (std::size_t at = text.size(); at > 0;) {
    do { --at; } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u);
    if (!is_white_space(first_character(text.substr(at)).code)) { break; }
    begin = at;
  }
  return text.size() - begin;
}

}  // namespace

added_tokens::added_tokens(std::vector<added_token> all) {
  std::stable_sort(all.begin(), all.end(), [](const added_token& a, const added_token& b) {
    return a.content.size() > b.content.size();
  });
  for (added_token& one : all) {
    if (one.content.empty()) { continue; }
    by_first_byte_[static_cast<unsigned char>(one.content[0])].push_back(std::move(one));
  }
}

const added_token* added_tokens::at(std::string_view rest) const {
  for (const added_token& one : by_first_byte_[static_cast<unsigned char>(rest[0])]) {
    if (rest.starts_with(one.content)) { return &one; }
  }
  return nullptr;
}

std::vector<added_tokens::part> added_tokens::parts(std::string_view text) const {
  std::vector<part> out;
  std::size_t end = 0;  // of the last part
  for (std::size_t i = 0; i < text.size();) {
    const added_token* const found = at(text.substr(i));
    if (found == nullptr) {
      ++i;
      continue;
    }
    std::size_t begin = i;
    i += found->content.size();
    if (found->takes_left) { begin -= space_at_back(text.substr(end, begin - end)); }
    if (found->takes_right) { i += space_at_front(text.substr(i)); }
    if (end < begin) { out.push_back({{end, begin}, hunch::no_token}); }
    out.push_back({{begin, i}, found->id});
    end = i;
  }
  if (end < text.size()) { out.push_back({{end, text.size()}, hunch::no_token}); }
  return out;
}

}  // namespace engine::text

// SPDX-License-Identifier: Apache-2.0
#include <engine/text/spellings.hpp>

#include <cstddef>
#include <utility>

namespace engine::text {

spellings::spellings(std::vector<std::string> by_token) : by_token_(std::move(by_token)) {
  tokens_.reserve(by_token_.size());
  for (std::size_t t = 0; t < by_token_.size(); ++t) {
    if (!by_token_[t].empty()) { tokens_.emplace(by_token_[t], static_cast<hunch::token>(t)); }
  }
}

hunch::token spellings::of(std::string_view spelling) const {
  const auto found = tokens_.find(spelling);
  return found == tokens_.end() ? hunch::no_token : found->second;
}

hunch::token spellings::of_byte(unsigned char byte) const {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const char spelling[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
  return of({spelling, sizeof spelling});
}

bool is_dense(std::size_t number, std::size_t tokens) {
  constexpr std::size_t any = 65536;
  return number < 2 * tokens + any;
}

}  // namespace engine::text

// SPDX-License-Identifier: Apache-2.0
#include <engine/text/utf8.hpp>

#include <algorithm>

namespace engine::text {

character first_character(std::string_view text) {
  using state = character::state;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) { return {lead, 1, state::whole}; }
  if (lead < 0xC2 || lead > 0xF4) { return {0, 1, state::broken}; }
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) { return {0, i, state::cut}; }
    // Where shorter forms, surrogates and what is beyond U+10FFFF would begin.
    const unsigned least = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned most = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < least || byte(i) > most) { return {0, i, state::broken}; }
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {code, length, state::whole};
}

std::string encoded(char32_t code) {
  const auto part = [&](unsigned shift, unsigned mark, unsigned mask) {
    return static_cast<char>(mark | (code >> shift & mask));
  };
  if (code < 0x80) { return {static_cast<char>(code)}; }
  if (code < 0x800) { return {part(6, 0xC0, 0x1F), part(0, 0x80, 0x3F)}; }
  if (code < 0x10000) { return {part(12, 0xE0, 0x0F), part(6, 0x80, 0x3F), part(0, 0x80, 0x3F)}; }
  return {part(18, 0xF0, 0x07), part(12, 0x80, 0x3F), part(6, 0x80, 0x3F), part(0, 0x80, 0x3F)};
}

std::string take_characters(std::string& held) {
  std::string out;
  std::string_view rest = held;
  while (!rest.empty()) {
    const character c = first_character(rest);
    if (c.is == character::state::cut) { break; }
    out += c.is == character::state::whole ? rest.substr(0, c.bytes) : replacement_character;
    rest.remove_prefix(c.bytes);
  }
  held.erase(0, held.size() - rest.size());
  return out;
}

std::string well_formed(std::string_view text) {
  std::string held(text);
  std::string out = take_characters(held);
  if (!held.empty()) { out += replacement_character; }
  return out;
}

bool is_white_space(char32_t code) {
  constexpr char32_t others[] = {' ', 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (code >= '\t' && code <= '\r') || (code >= 0x2000 && code <= 0x200A) ||
         std::find(std::begin(others), std::end(others), code) != std::end(others);
}

}  // namespace engine::text

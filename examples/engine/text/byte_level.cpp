// SPDX-License-Identifier: Apache-2.0
#include <engine/text/byte_level.hpp>

#include <array>
#include <cstddef>

#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

constexpr char32_t first_other = 0x100;
constexpr std::size_t others = 68;

bool stands_for_itself(char32_t byte) {
  return (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte < 0x100 && byte != 0xAD);
}

struct alphabet {
  std::array<std::string, 256> letters;
  std::array<unsigned char, others> bytes_of_others{};

  alphabet() {
    std::size_t other = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (stands_for_itself(byte)) {
        letters[byte] = encoded(byte);
      } else {
        bytes_of_others[other] = static_cast<unsigned char>(byte);
        letters[byte] = encoded(first_other + static_cast<char32_t>(other++));
      }
    }
  }
};

const alphabet& of_bytes() {
  static const alphabet all;
  return all;
}

}  // namespace

std::string_view letter_of(unsigned char byte) { return of_bytes().letters[byte]; }

std::string spelled(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char byte : bytes) { out += letter_of(static_cast<unsigned char>(byte)); }
  return out;
}

std::optional<std::string> unspelled(std::string_view letters) {
  std::string out;
  while (!letters.empty()) {
    const character c = first_character(letters);
    letters.remove_prefix(c.bytes);
    if (c.is == character::state::whole && stands_for_itself(c.code)) {
      out += static_cast<char>(c.code);
    } else if (c.code >= first_other && c.code < first_other + others) {
      out += static_cast<char>(of_bytes().bytes_of_others[c.code - first_other]);
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace engine::text

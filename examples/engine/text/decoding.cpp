// SPDX-License-Identifier: Apache-2.0
#include <engine/text/decoding.hpp>

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <engine/text/byte_level.hpp>
#include <engine/text/json_fields.hpp>
#include <engine/text/metaspace.hpp>

namespace engine::text {
namespace {

/// "<0x0A>" is a byte; anything else is itself.
std::string byte_of(std::string token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) { return token; }
  unsigned char byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  const bool is_byte = error == std::errc() && end == token.data() + 5;
  return is_byte ? std::string(1, static_cast<char>(byte)) : token;
}

std::string bytes_of(std::string token) {
  std::optional<std::string> bytes = unspelled(token);
  return bytes ? *std::move(bytes) : token;
}

}  // namespace

decoding::decoding(const config_object& described) {
  bool fused = false;
  bool has_bytes = false;  // which by themselves are no text
  for (const config_object& part : in_sequence(described, "decoders")) {
    const std::string type = part.string("type");
    if (fused && type != "Strip") { part.refuse("type", "is " + type + ", after Fuse"); }
    if (type == "ByteLevel") {
      has_bytes = true;
      steps_.emplace_back(bytes_of);
    } else if (type == "ByteFallback") {
      has_bytes = true;
      steps_.emplace_back(byte_of);
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Replace") {
      if (has_bytes && part.child("pattern").has("Regex")) {
        part.refuse("pattern", "is a \"Regex\" where tokens are bytes; a \"String\" is expected");
      }
      steps_.emplace_back([what = read_pattern(part), by = part.string("content")](
                              const std::string& token) { return what.replaced(token, by); });
    } else if (type == "Strip") {
      read_strip(part, fused);
    } else if (type == "Metaspace") {
      const metaspace sign(part);
      drops_first_space_ = sign.scheme != metaspace::prepended::never;
      steps_.emplace_back([sign](std::string token) { return sign.read(token); });
    } else {
      refuse_type(part, "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip and Sequence");
    }
  }
}

void decoding::read_strip(const config_object& part, bool fused) {
  if (!fused) { part.refuse("type", "is Strip, before Fuse: it would be of each token"); }
  if (part.string("content") != " " || part.integer("stop", 1) != 0) {
    part.refuse("content",
                "and \"stop\" are not \" \" and 0: only spaces at the beginning are dropped");
  }
  drops_first_space_ = part.integer("start", 1) == 1;
}

std::string decoding::operator()(std::string_view spelling) const {
  std::string out(spelling);
  for (const auto& step : steps_) { out = step(std::move(out)); }
  return out;
}

}  // namespace engine::text

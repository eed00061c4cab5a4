// SPDX-License-Identifier: Apache-2.0
#include <engine/text/normalizer.hpp>

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <engine/text/json_fields.hpp>
#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

using rewriting = std::function<std::string(std::string)>;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

/// A normal form of Unicode; none changes ASCII.
rewriting form(int options) {
  return [options](std::string text) {
    if (is_ascii(text)) { return text; }
    utf8proc_uint8_t* made = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &made,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
    const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
    if (size < 0) {
      throw std::runtime_error(std::string("engine::tokenizer: a text has no normal form: ") +
                               utf8proc_errmsg(size));
    }
    return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
  };
}

std::string lower_case(std::string text) {
  constexpr char32_t dotted_i = 0x130;  // the only letter that becomes two
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const character c = first_character(rest);
    rest.remove_prefix(c.bytes);
    out += c.code == dotted_i ? "i\u0307"
                              : encoded(static_cast<char32_t>(
                                    utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
  }
  return out;
}

rewriting strip(bool left, bool right) {
  return [left, right](std::string text) {
    std::size_t begin = text.size(), end = 0;
    for (std::size_t at = 0; at < text.size();) {
      const character c = first_character(std::string_view(text).substr(at));
      if (!is_white_space(c.code)) {
        begin = std::min(begin, at);
        end = at + c.bytes;
      }
      at += c.bytes;
    }
    if (!left) { begin = 0; }
    if (!right) { end = text.size(); }
    return begin < end ? text.substr(begin, end - begin) : std::string();
  };
}

rewriting replace(pattern what, std::string by) {
  return [what = std::move(what), by = std::move(by)](std::string text) {
    return what.replaced(text, by);
  };
}

rewriting read_step(const config_object& described) {
  const std::string type = described.string("type");
  if (type == "NFC") { return form(UTF8PROC_COMPOSE); }
  if (type == "NFD") { return form(UTF8PROC_DECOMPOSE); }
  if (type == "NFKC") { return form(UTF8PROC_COMPOSE | UTF8PROC_COMPAT); }
  if (type == "NFKD") { return form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT); }
  if (type == "Lowercase") { return lower_case; }
  if (type == "Strip") {
    return strip(described.boolean("strip_left"), described.boolean("strip_right"));
  }
  if (type == "Prepend") {
    return [front = described.string("prepend")](std::string text) {
      return text.empty() ? text : front + text;
    };
  }
  if (type == "Replace") { return replace(read_pattern(described), described.string("content")); }
  refuse_type(described, "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace and Sequence");
}

}  // namespace

normalizer::normalizer(const config_object& described) {
  for (const config_object& part : in_sequence(described, "normalizers")) {
    steps_.push_back(read_step(part));
  }
}

std::string normalizer::operator()(std::string text) const {
  for (const auto& step : steps_) { text = step(std::move(text)); }
  return text;
}

}  // namespace engine::text

// SPDX-License-Identifier: Apache-2.0
#include <engine/text/metaspace.hpp>

#include <engine/text/pattern.hpp>
#include <engine/text/utf8.hpp>

namespace engine::text {
metaspace::metaspace(const config_object& described) {
  sign = described.string("replacement");
  const bool one = !sign.empty() && first_character(sign).bytes == sign.size();
  if (!one) { described.refuse("replacement", "is not one character"); }
  const std::string name =
      described.has("prepend_scheme") ? described.string("prepend_scheme") : "always";
  if (name == "never" || !described.boolean("add_prefix_space", true)) {
    scheme = prepended::never;
  } else if (name == "first") {
    scheme = prepended::first;
  } else if (name != "always") {
    described.refuse("prepend_scheme", "is " + name + "; supported are never, first and always");
  }
}

std::string metaspace::written(std::string_view piece, bool first) const {
  std::string out = pattern::literal(" ").replaced(piece, sign);
  const bool wanted = scheme == prepended::always || (scheme == prepended::first && first);
  return wanted && !out.starts_with(sign) ? sign + out : out;
}

std::string metaspace::read(std::string_view token) const {
  return pattern::literal(sign).replaced(token, " ");
}

}  // namespace engine::text

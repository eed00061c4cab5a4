// SPDX-License-Identifier: Apache-2.0
#include <engine/text/json_fields.hpp>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace engine::text {

std::vector<config_object> objects(const config_object& in, const std::string& key) {
  const nlohmann::json& list = in.at(key);
  if (!list.is_array()) { in.refuse(key, "is not a list"); }
  std::vector<config_object> out;
  out.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    out.emplace_back(list[i], in.where() + ": \"" + key + "\"[" + std::to_string(i) + "]");
  }
  return out;
}

std::vector<config_object> in_sequence(const config_object& in, const std::string& list) {
  if (in.string("type") != "Sequence") { return {in}; }
  std::vector<config_object> out;
  for (const config_object& part : objects(in, list)) {
    for (const config_object& inner : in_sequence(part, list)) { out.push_back(inner); }
  }
  return out;
}

pattern read_pattern(const config_object& in) {
  const config_object of = in.child("pattern");
  if (of.has("String")) { return pattern::literal(of.string("String")); }
  if (!of.has("Regex")) { in.refuse("pattern", "has neither \"String\" nor \"Regex\""); }
  try {
    return pattern::expression(of.string("Regex"));
  } catch (const std::invalid_argument& error) { of.refuse("Regex", error.what()); }
}

void refuse_type(const config_object& in, const std::string& supported) {
  in.refuse("type", "is " + in.string("type") + "; supported are " + supported);
}

void expect_nothing(const config_object& in, const std::string& key) {
  if (!in.has(key)) { return; }
  const nlohmann::json& value = in.at(key);
  const bool nothing = value == false || value == 0 || value == "";
  if (!nothing) { in.refuse(key, "is " + value.dump() + "; not supported, null is expected"); }
}

}  // namespace engine::text

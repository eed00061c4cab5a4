// SPDX-License-Identifier: Apache-2.0
#include <engine/text/named_tokens.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include <engine/config_object.hpp>

namespace engine::text {
namespace {

struct role {
  const char* name;
  hunch::token named_tokens::*token;
};
constexpr role roles[] = {{"bos_token", &named_tokens::bos},
                          {"eos_token", &named_tokens::eos},
                          {"mask_token", &named_tokens::mask}};

void read_names(const config_object& of, const std::vector<std::string>& pieces,
                named_tokens& out) {
  for (const auto& [name, token] : roles) {
    if (!of.has(name)) { continue; }
    const bool described = of.at(name).is_object();
    const std::string content = described ? of.child(name).string("content") : of.string(name);
    const auto found = std::find(pieces.begin(), pieces.end(), content);
    if (content.empty() || found == pieces.end()) { of.refuse(name, "is no token"); }
    out.*token = static_cast<hunch::token>(found - pieces.begin());
  }
}

void read_numbers(const config_object& of, const std::vector<std::string>& pieces,
                  named_tokens& out) {
  for (const auto& [name, token] : roles) {
    const std::string key = std::string(name) + "_id";
    if (out.*token != hunch::no_token || !of.has(key)) { continue; }
    const nlohmann::json& value = of.at(key);
    const nlohmann::json& one = value.is_array() && !value.empty() ? value[0] : value;
    if (!one.is_number_unsigned()) { of.refuse(key, "is no token"); }
    if (one < pieces.size()) {
      out.*token = one.get<hunch::token>();
    }  // a padded vocabulary has more
  }
}

}  // namespace

named_tokens read_named_tokens(const std::filesystem::path& directory,
                               const std::vector<std::string>& pieces) {
  named_tokens out;
  const auto read = [&](const char* name, auto reader) {
    const std::filesystem::path file = directory / name;
    if (!std::filesystem::exists(file)) { return; }
    const nlohmann::json values = parsed_json(file);
    reader(config_object(values, file.string()), pieces, out);
  };
  read("tokenizer_config.json", read_names);
  read("config.json", read_numbers);
  return out;
}

}  // namespace engine::text

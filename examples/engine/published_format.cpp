// SPDX-License-Identifier: Apache-2.0
#include <engine/published_format.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include <engine/config_object.hpp>

namespace engine {

std::optional<published_format> format_of(const checkpoint& source) {
  const auto has = [&](const char* name) { return source.has(std::string(name) + ".weight"); };
  if (has("streams.down")) { return published_format::own_streams; }
  if (has("exit.down")) { return published_format::own_exit; }
  if (has("medusa.0")) { return published_format::own_medusa; }
  if (has("model.fc")) { return published_format::own_eagle; }
  if (has("0.0.linear") || has("medusa_head.0.0.linear")) { return published_format::medusa; }
  if (has("mtp_layers.0.input_proj")) { return published_format::mtp; }
  if (has("fc")) {
    const bool both = has("midlayer.hidden_norm") || has("layers.0.hidden_norm");
    return both ? published_format::eagle3 : published_format::eagle;
  }
  if (has("model.layers.0.self_attn.q_proj")) { return published_format::model; }
  return std::nullopt;
}

std::string words_for(std::optional<published_format> format) {
  if (!format) { return "looks like no format that is known here"; }
  switch (*format) {
    case published_format::model:
      return "looks like a whole model";
    case published_format::eagle:
      return "looks like an EAGLE head as it is published";
    case published_format::eagle3:
      return "looks like an EAGLE-3 head as it is published";
    case published_format::mtp:
      return "looks like a layer for multi-token prediction";
    case published_format::medusa:
      return "looks like Medusa heads as they are published";
    case published_format::own_eagle:
      return "looks like an EAGLE head";
    case published_format::own_medusa:
      return "looks like Medusa heads";
    case published_format::own_exit:
      return "looks like an early exit";
    case published_format::own_streams:
      return "looks like speculative streams";
  }
  return {};
}

std::string words_for_unknown(const std::filesystem::path& directory, const checkpoint& source) {
  const std::vector<std::string> names = source.names();
  std::string out = "looks like no draft head and no model that is known here";
  if (!names.empty()) {
    out += ": it has " + std::to_string(names.size()) + " tensors, \"" + names.front() +
           "\" is the first";
  }
  const auto file = directory / "config.json";
  if (!std::filesystem::exists(file)) { return out + ", and no config.json"; }
  const nlohmann::json values = parsed_json(file);
  const config_object of{values, file.string()};
  for (const char* key : {"speculators_model_type", "architectures", "model_type"}) {
    if (of.has(key)) {
      return out + ", and its config.json says \"" + key + "\": " + of.at(key).dump();
    }
  }
  return out;
}

void refuse_unread(const checkpoint& source, std::set<std::string> read, published_format format) {
  read.insert({"model.embed_tokens.weight", "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"});
  for (const std::string& name : source.names()) {
    if (name.ends_with(".inv_freq")) { read.insert(name); }
  }
  source.refuse_others(read, "it " + words_for(format) + ", which has no such tensor");
}

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#include <engine/published_format.hpp>

#include <algorithm>

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

void refuse_unread(const checkpoint& source, std::set<std::string> read, published_format format) {
  read.insert({"model.embed_tokens.weight", "embed_tokens.weight", "lm_head.weight", "d2t", "t2d"});
  for (const std::string& name : source.names()) {
    if (name.ends_with(".inv_freq")) { read.insert(name); }
  }
  source.refuse_others(read, "it " + words_for(format) + ", which has no such tensor");
}

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#include <engine/canvas_head_config.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include <engine/config_object.hpp>

namespace engine {
namespace {

[[noreturn]] void refuse(const char* why) {
  throw std::invalid_argument(std::string("engine::canvas_head: ") + why);
}

std::string text_of(const rope_config& r) {
  const auto with = [](const char* name, double value) {
    return std::string(name) + nlohmann::json(value).dump();
  };
  std::string out = with("of theta ", r.theta);
  if (r.kind == rope_config::scaling::none) { return out; }
  out += with(r.kind == rope_config::scaling::linear ? ", linear by " : ", llama3 by ", r.factor);
  if (r.kind == rope_config::scaling::linear) { return out; }
  return out + with(" from ", r.low_frequency_factor) + with(" to ", r.high_frequency_factor) +
         with(" of ", r.original_context);
}

}  // namespace

void canvas_head_config::check() const {
  model.check();
  const auto below_zero = [](int layer) { return layer < 0; };
  if (below_zero(target_layer) ||
      std::any_of(cached_layers.begin(), cached_layers.end(), below_zero)) {
    refuse("layers of the target are counted from 0");
  }
  if (static_cast<int>(cached_layers.size()) != model.layers) {
    refuse("cached_layers has not one layer for each of its own");
  }
}

canvas_head_config read_canvas_head_config(const std::filesystem::path& file) {
  const nlohmann::json values = parsed_json(file);
  const config_object o{values, file.string()};
  canvas_head_config out;
  out.model = read_config(file);
  out.target_layer = o.integer("target_layer", config::max_layers);
  const nlohmann::json& layers = o.at("cached_layers");
  if (!layers.is_array()) { o.refuse("cached_layers", "is not a list of layers"); }
  for (const nlohmann::json& layer : layers) {
    if (!layer.is_number_integer()) { o.refuse("cached_layers", "is not a list of layers"); }
    if (layer < 0 || layer >= config::max_layers) {
      o.refuse("cached_layers", "has " + layer.dump() + ", out of range: 0 to " +
                                    std::to_string(config::max_layers - 1));
    }
    out.cached_layers.push_back(layer.get<int>());
  }
  if (static_cast<int>(out.cached_layers.size()) != out.model.layers) {
    o.refuse("cached_layers", "has not one layer for each of \"num_hidden_layers\"");
  }
  return out;
}

void check_canvas_head(const canvas_head_config& shape, const checkpoint& weights,
                       const named_model& model, const masked_config& target) {
  shape.check();
  const config& own = shape.model;
  const config& of = target.model;
  const std::string& head = weights.origin();
  model.must_have("hidden size", of.hidden, head, own.hidden);
  model.must_have("vocabulary size", of.vocab_size, head, own.vocab_size);
  model.must_have("number of key-value heads", of.kv_heads, head, own.kv_heads);
  model.must_have("size of an attention head", of.head_dim, head, own.head_dim);
  model.must_have("rotary embedding", text_of(of.rope), head, text_of(own.rope));
  model.must_have("number of embedding rows", of.rows_of_embedding(), head,
                  own.rows_of_embedding());
  const auto reads = [&](int layer) {
    if (layer >= of.layers) {
      model.refuse_head(head, "reads layer " + std::to_string(layer),
                        "has " + std::to_string(of.layers) + ", counted from 0");
    }
  };
  reads(shape.target_layer);
  for (const int layer : shape.cached_layers) { reads(layer); }
  if (target.pattern != masked_config::attention::causal_prefix) {
    model.refuse_head(head, "reads keys and values of the text that is written",
                      "caches none: its attention is full");
  }
  if (!weights.has("model.fc.weight")) {
    throw std::runtime_error(weights.origin() + ": tensor \"model.fc.weight\" is missing");
  }
}

}  // namespace engine

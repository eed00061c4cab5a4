// SPDX-License-Identifier: Apache-2.0
#include <engine/eagle_files.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <engine/config_object.hpp>
#include <engine/published_format.hpp>
#include <engine/tensors.hpp>

namespace engine {
namespace {

using object = config_object;

constexpr const char* layers_key = "eagle_aux_hidden_state_layer_ids";
constexpr const char* nested_key = "eagle_config";  // where some keep what is not a Llama's

/// What these layers of the target begin with an EAGLE-3 head reads, in the order of the layers;
/// their number stands for what the last one ends with. The config has these numbers, or, in an
/// object of its own, those of the layers that end so; else they are those that its authors read.
std::vector<int> read_feature_layers(const object& o, const config& target) {
  std::vector<int> out{2, target.layers / 2, target.layers - 3};
  const bool is_nested = !o.has(layers_key) && o.has(nested_key);
  const object of = is_nested ? o.child(nested_key) : o;
  if (of.has(layers_key)) {
    out.clear();
    const int before = is_nested ? 1 : 0;
    for (const nlohmann::json& layer : of.at(layers_key)) {
      if (!layer.is_number_integer() || layer < 0 || layer > target.layers - before) {
        of.refuse(layers_key, "has " + layer.dump() + ", and its target " +
                                  std::to_string(target.layers) + " layers");
      }
      out.push_back(layer.get<int>() + before);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// EAGLE-3 heads that are more than this engine computes. Only in those of `speculators` norms have
/// one meaning: with "norm_output" the head reads the state after a norm, and elsewhere the next
/// row may or may not do so, too.
void refuse_variants(const object& o, bool of_speculators) {
  for (const char* key : {"norm_before_fc", "fc_norm", "norm_output", "use_mtp_layernorm"}) {
    const bool is_read = of_speculators && key != std::string_view("use_mtp_layernorm");
    if (!is_read && o.boolean(key, false)) { o.refuse(key, "is true; not supported"); }
  }
  constexpr const char* layers = "use_aux_hidden_state";
  if (!o.boolean(layers, true)) {
    o.refuse(layers, "is false; supported is a head that reads several layers of its target");
  }
  if (o.has(nested_key)) { refuse_variants(o.child(nested_key), false); }
}

/// The norms of an EAGLE-3 head of `speculators` that its authors' have not.
void read_norms(const object& o, std::size_t layers, eagle_form& out) {
  const bool of_all = o.boolean("norm_before_fc", false);
  const bool of_each = o.boolean("fc_norm", false);
  if (of_all && of_each) { o.refuse("fc_norm", "is true, and \"norm_before_fc\", too"); }
  out.feature_norms = of_all ? 1 : of_each ? static_cast<int>(layers) : 0;
  out.norms_own = o.boolean("norm_output", false);
}

/// The names of a model's tensors, whichever way the head was published.
void rename(checkpoint& weights, published_format format) {
  static constexpr std::pair<const char*, const char*> names[] = {
      {"mtp_layers.0.input_proj.", "fc."},
      {"mtp_layers.0.token_layernorm.", "model.embedding_norm."},
      {"mtp_layers.0.hidden_layernorm.", "model.state_norm."},
      {"mtp_layers.0.final_layernorm.", "norm."},
      {"mtp_layers.", "layers."},
      {"midlayer.", "layers.0."},
      {"input_norm.", "model.feature_norm.0."},
      {"fc_norm.", "model.feature_norm."},
      {"layers.", "model.layers."},
      {"fc.", "model.fc."},
      {"norm.", "model.norm."},
      {"embed_tokens.", "model.embed_tokens."}};
  for (const auto& [from, to] : names) { weights.rename_prefix(from, to); }
  if (format != published_format::eagle3) { return; }
  const std::string layer = "model.layers.0.";
  weights.rename_prefix(layer + "input_layernorm.", "model.embedding_norm.");
  weights.rename_prefix(layer + "hidden_norm.", layer + "input_layernorm.");
}

int columns_of(const checkpoint& weights, const std::string& name) {
  const auto& shape = weights.get(name).shape;
  return shape.size() == 2 && shape[1] < 8 * config::max_hidden ? static_cast<int>(shape[1]) : 0;
}

/// What tells the parts of a published head, which its config need not.
void find_parts(const checkpoint& weights, published_format format, config& shape) {
  const auto has = [&](const char* name) { return weights.has(name); };
  shape.qkv_bias = has("model.layers.0.self_attn.q_proj.bias");
  shape.qk_norm = has("model.layers.0.self_attn.q_norm.weight");
  shape.eagle.skips_first = true;
  shape.eagle.first_norm = has("model.layers.0.input_layernorm.weight");
  shape.eagle.last_norm = has("model.norm.weight");
  shape.eagle.norms_inputs = format == published_format::mtp;
  if (format != published_format::eagle3) { return; }
  shape.eagle.reads_both = true;
  shape.eagle.feature_width = columns_of(weights, "model.fc.weight");
  if (has("lm_head.weight")) {
    shape.eagle.head_rows = weights.rows_of("lm_head.weight");
    shape.tied_head = false;
  }
}

/// What a model reads of these weights.
std::set<std::string> names_of_read(const config& shape) {
  std::set<std::string> out{"model.fc.weight", "model.fc.bias"};
  for (const tensor_shape& tensor : tensors_of(shape)) { out.insert(tensor.name); }
  return out;
}

/// That `speculators` means by its name what the tensors look like.
void check_type(const object& o, published_format format) {
  constexpr const char* key = "speculators_model_type";
  const std::string type = o.string(key);
  if (type != "eagle3" && type != "mtp") {
    o.refuse(key, "is " + type + "; supported are eagle3 and mtp");
  }
  if (format != (type == "mtp" ? published_format::mtp : published_format::eagle3)) {
    o.refuse(key, "is " + type + ", and by its tensors it " + words_for(format));
  }
}

/// The layers of `speculators`: those of Qwen3-Next, say, have other attention under the same
/// names.
void check_layer(const object& o) {
  constexpr const char* key = "model_type";
  const std::string type = o.has(key) ? o.string(key) : "llama";
  if (type != "llama" && type != "qwen2" && type != "qwen3") {
    o.refuse(key, "is " + type + "; supported are llama, qwen2 and qwen3");
  }
}

/// Whether the residual of an EAGLE-3 head is the state after its norm. `speculators` always writes
/// it; where it is missing, some readers take it for true and others for false.
bool read_keeps_norm(const object& o, bool of_speculators) {
  constexpr const char* key = "norm_before_residual";
  if (of_speculators && !o.has(key)) {
    o.refuse(key, "is missing: add true or false, as the head was trained");
  }
  return o.boolean(key, false);
}

}  // namespace

eagle_files eagle_files::open(const std::filesystem::path& directory,
                              const std::filesystem::path& target_directory, const config& target) {
  const auto file = directory / "config.json";
  eagle_files out;
  out.weights = checkpoint::open(directory);
  const auto format = format_of(out.weights);
  if (out.weights.has("model.fc.weight")) {
    out.shape = read_config(file);
  } else if (format == published_format::eagle || format == published_format::eagle3 ||
             format == published_format::mtp) {
    const nlohmann::json values = parsed_json(file);
    const object whole{values, file.string()};
    const bool of_speculators = whole.has("speculators_model_type");
    if (of_speculators) { check_type(whole, *format); }
    if (format == published_format::eagle3) { refuse_variants(whole, of_speculators); }
    const object o = of_speculators ? whole.child("transformer_layer_config") : whole;
    if (of_speculators) { check_layer(o); }
    const std::string type = o.has("model_type") ? o.string("model_type") : "llama";
    out.shape = read_llama_fields(o, type == "llama" ? llama_context : 0);
    end_with_window(o, o.boolean("use_sliding_window", !type.starts_with("qwen")), out.shape);
    out.shape.tied_head = target.tied_head;
    if (format == published_format::mtp || out.weights.has("midlayer.hidden_norm.weight")) {
      out.shape.layers = 1;  // whatever its config says, which may be the target's
    }
    rename(out.weights, *format);
    find_parts(out.weights, *format, out.shape);
    if (format == published_format::eagle3) {
      out.shape.eagle.keeps_norm = read_keeps_norm(whole, of_speculators);
      out.feature_layers = read_feature_layers(whole, target);
      if (of_speculators) { read_norms(whole, out.feature_layers.size(), out.shape.eagle); }
    }
    check_shape(out.shape, file);
    refuse_unread(out.weights, names_of_read(out.shape), *format);
  } else {
    throw std::runtime_error(
        directory.string() +
        ": is no EAGLE head: tensor \"model.fc.weight\" is missing, or "
        "\"fc.weight\" of one as others publish it; it " +
        (format ? words_for(format) : words_for_unknown(directory, out.weights)));
  }
  const tensor_names& shared = names_of(out.shape.names);
  const std::string embedding = std::string(shared.embedding) + ".weight";
  const std::string head = std::string(shared.head) + ".weight";
  checkpoint of_target = checkpoint::open(target_directory);
  if (format != published_format::own_eagle && out.shape.tied_head && out.weights.has(embedding)) {
    // Its embedding may be its own; its head is the target's.
    out.weights.replace(head, std::move(of_target), embedding);
    out.shape.tied_head = false;
  } else {
    out.weights.add_missing(std::move(of_target), {embedding, head});
  }
  return out;
}

std::vector<int> eagle_files::feature_layers_of(const std::filesystem::path& directory,
                                                const std::filesystem::path& target_directory) {
  const config target = read_config(target_directory / "config.json");
  return open(directory, target_directory, target).feature_layers;
}

}  // namespace engine

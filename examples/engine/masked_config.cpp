// SPDX-License-Identifier: Apache-2.0
#include <engine/masked_config.hpp>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include <engine/config_object.hpp>

namespace engine {
namespace {

/// LLaDA's config is that of OLMo, whose defaults are another architecture: what the two differ in
/// must be in the file.
config read_llada(const config_object& o) {
  const auto expect = [&](const char* key, const char* supported) {
    if (o.string(key) != supported) {
      o.refuse(key, "is " + o.string(key) + "; supported is " + supported);
    }
  };
  expect("block_type", "llama");
  expect("activation_type", "silu");
  expect("layer_norm_type", "rms");
  if (!o.boolean("rope")) { o.refuse("rope", "is false; not supported"); }
  for (const char* key :
       {"include_bias", "include_qkv_bias", "bias_for_layer_norm", "alibi", "attention_layer_norm",
        "multi_query_attention", "input_emb_norm", "scale_logits"}) {
    if (o.boolean(key, false)) { o.refuse(key, "is true; not supported"); }
  }
  if (!o.boolean("layer_norm_with_affine", true)) {
    o.refuse("layer_norm_with_affine", "is false; not supported");
  }
  if (o.integer_or("block_group_size", 1, config_object::any) != 1) {
    o.refuse("block_group_size", "is not 1; not supported");
  }
  if (o.has("clip_qkv")) { o.refuse("clip_qkv", "is not supported"); }

  config out;
  out.names = config::naming::llada;
  out.vocab_size = o.integer("vocab_size", config::max_tokens);
  out.embedding_rows = o.integer_or("embedding_size", out.vocab_size, config::max_tokens);
  out.hidden = o.integer("d_model", config::max_hidden);
  out.intermediate = o.integer("mlp_hidden_size", 8 * config::max_hidden);
  out.layers = o.integer("n_layers", config::max_layers);
  out.heads = o.integer("n_heads", config::max_heads);
  out.kv_heads = o.integer_or("n_kv_heads", out.heads, config::max_heads);
  if (out.heads == 0) { o.refuse("n_heads", "must be positive"); }
  if (out.hidden % out.heads != 0) { o.refuse("d_model", "is no multiple of n_heads"); }
  out.head_dim = out.hidden / out.heads;
  out.context = o.integer("max_sequence_length", config::max_positions);
  out.norm_epsilon = static_cast<float>(o.number("rms_norm_eps"));
  out.rope.theta = o.number("rope_theta");
  out.tied_head = o.boolean("weight_tying");
  out.end_tokens = read_end_tokens(o);
  out.vocabulary = o.fingerprint("vocabulary_fingerprint");
  return out;
}

/// Dream's config is that of Qwen2.
config read_dream(const config_object& o) {
  if (o.boolean("use_sliding_window", false)) {
    o.refuse("use_sliding_window", "is true; not supported");
  }
  return read_qwen2_fields(o);
}

masked_config::attention read_pattern(const config_object& o) {
  const std::string name = o.string("attention");
  if (name == "full") { return masked_config::attention::full; }
  if (name != "causal_prefix") {
    o.refuse("attention", "is " + name + "; supported are full and causal_prefix");
  }
  return masked_config::attention::causal_prefix;
}

}  // namespace

void masked_config::check() const {
  model.check();
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(std::string("engine::masked_config: ") + why);
  };
  if (mask_token < 0 || mask_token >= model.rows_of_embedding()) {
    refuse("mask_token lies outside of the embedding");
  }
  if (block_length < 0) { refuse("block_length must not be negative"); }
}

masked_config read_masked_config(const std::filesystem::path& file) {
  const nlohmann::json values = parsed_json(file);
  const config_object o{values, file.string()};
  const std::string architecture =
      architecture_of(o, {"LLaDAModelLM", "DreamModel", "HunchMaskedLlama"});
  masked_config out;
  if (architecture == "LLaDAModelLM") {
    out.model = read_llada(o);
  } else if (architecture == "DreamModel") {
    out.model = read_dream(o);
    out.shifted = true;
  } else {
    check_llama_attention(o);
    out.model = read_llama_fields(o);
    out.pattern = read_pattern(o);
    out.shifted = o.boolean("shifted");
    out.block_length = o.integer("block_length", config::max_positions);
    if (out.block_length == 0) { o.refuse("block_length", "must be positive"); }
  }
  out.mask_token = o.integer("mask_token_id", config::max_tokens);
  check_shape(out.model, file);
  if (out.mask_token >= out.model.rows_of_embedding()) {
    o.refuse("mask_token_id", "lies outside of the embedding");
  }
  return out;
}

}  // namespace engine

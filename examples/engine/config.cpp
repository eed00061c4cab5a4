// SPDX-License-Identifier: Apache-2.0
#include <engine/config.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <engine/config_object.hpp>
#include <hunch/tools/fingerprints.hpp>

namespace engine {
namespace {

using nlohmann::json;
using object = config_object;

/// `rope_scaling`, or `rope_parameters` where newer files keep theta, too.
void read_rope_scaling(const object& o, rope_config& rope) {
  rope.theta = o.number("rope_theta", rope.theta);
  const char* key = o.has("rope_type") ? "rope_type" : "type";
  const std::string kind = o.has(key) ? o.string(key) : "default";
  if (kind == "default") { return; }
  if (kind == "linear") {
    rope.kind = rope_config::scaling::linear;
    rope.factor = o.number("factor");
  } else if (kind == "llama3") {
    rope.kind = rope_config::scaling::llama3;
    rope.factor = o.number("factor");
    rope.low_frequency_factor = o.number("low_freq_factor");
    rope.high_frequency_factor = o.number("high_freq_factor");
    rope.original_context = o.integer("original_max_position_embeddings", config::max_positions);
    if (rope.original_context == 0) {
      o.refuse("original_max_position_embeddings", "must be positive");
    }
    if (!(rope.high_frequency_factor > rope.low_frequency_factor)) {
      o.refuse("high_freq_factor", "must be larger than low_freq_factor");
    }
  } else {
    o.refuse(key, "is " + kind + "; supported are default, linear and llama3");
  }
  if (!(rope.factor > 0)) { o.refuse("factor", "must be positive"); }
}

}  // namespace

void config::check() const {
  const auto in_range = [](int value, const char* name, int most) {
    if (value <= 0) {
      throw std::invalid_argument(std::string("engine::config: ") + name + " must be positive");
    }
    if (value > most) {
      throw std::invalid_argument(std::string("engine::config: ") + name + " is " +
                                  std::to_string(value) + ", and may be " + std::to_string(most));
    }
  };
  in_range(vocab_size, "vocab_size", max_tokens);
  in_range(hidden, "hidden", max_hidden);
  in_range(intermediate, "intermediate", 8 * max_hidden);
  in_range(layers, "layers", max_layers);
  in_range(heads, "heads", max_heads);
  in_range(kv_heads, "kv_heads", max_heads);
  in_range(head_dim, "head_dim", 4 * max_heads);
  in_range(context, "context", max_positions);
  if (embedding_rows != 0) {
    in_range(embedding_rows, "embedding_rows", max_tokens);
    if (embedding_rows < vocab_size) {
      throw std::invalid_argument("engine::config: embedding_rows must not be below vocab_size");
    }
  }
  if (heads % kv_heads != 0) {
    throw std::invalid_argument("engine::config: heads must be a multiple of kv_heads");
  }
  if (head_dim % 2 != 0) {
    throw std::invalid_argument("engine::config: head_dim must be even, for rotary embedding");
  }
  if (eagle.reads_both) {
    in_range(eagle.feature_width, "eagle.feature_width", 8 * max_hidden);
    if (layers != 1 || hidden % 16 != 0 || eagle.feature_width % 16 != 0) {
      throw std::invalid_argument(
          "engine::config: an EAGLE-3 head has one layer, and sizes that are multiples of 16");
    }
  }
  if (eagle.feature_norms != 0) {
    in_range(eagle.feature_norms, "eagle.feature_norms", max_layers);
    if (eagle.feature_width % (16 * eagle.feature_norms) != 0) {
      throw std::invalid_argument(
          "engine::config: norms of what an EAGLE-3 head reads have equal sizes that are multiples "
          "of 16");
    }
  }
  if (eagle.norms_inputs && hidden % 16 != 0) {
    throw std::invalid_argument(
        "engine::config: a head that norms its inputs has a hidden size that is a multiple of 16");
  }
  if (eagle.head_rows != 0) {
    in_range(eagle.head_rows, "eagle.head_rows", vocab_size);
    if (tied_head) {
      throw std::invalid_argument("engine::config: a head of its own is not the embedding");
    }
  }
  if (qkv_bias && qk_norm) {
    throw std::invalid_argument(
        "engine::config: biases of queries and keys that have norms are not supported");
  }
  if (!(rope.theta > 0) || !(norm_epsilon >= 0)) {
    throw std::invalid_argument("engine::config: rope.theta and norm_epsilon must be positive");
  }
}

std::ifstream opened(const std::filesystem::path& file, std::uintmax_t max_bytes) {
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(file, unknown);
  std::ifstream in(file, std::ios::binary);
  if (unknown || !in) { throw std::runtime_error(file.string() + ": cannot be opened"); }
  if (size > max_bytes) {
    throw std::runtime_error(file.string() + ": has " + std::to_string(size) +
                             " bytes, more than any file of its kind");
  }
  return in;
}

nlohmann::json parsed_json(const std::filesystem::path& file, std::uintmax_t max_bytes) {
  constexpr int deepest = 64;  // what is done with values goes as deep as they are nested
  std::ifstream in = opened(file, max_bytes);
  try {
    return json::parse(in, [&](int depth, json::parse_event_t, const json&) {
      if (depth > deepest) {
        throw std::runtime_error(file.string() + ": is nested more than " +
                                 std::to_string(deepest) + " deep");
      }
      return true;
    });
  } catch (const json::exception& error) {
    throw std::runtime_error(file.string() + ": bad JSON: " + error.what());
  }
}

std::string architecture_of(const config_object& o, const std::vector<std::string>& supported) {
  const json& names = o.at("architectures");
  if (!names.is_array() || names.size() != 1 || !names[0].is_string()) {
    o.refuse("architectures", "must name one architecture");
  }
  const auto name = names[0].get<std::string>();
  if (std::find(supported.begin(), supported.end(), name) != supported.end()) { return name; }
  std::string all;
  for (const std::string& one : supported) { all += (all.empty() ? "" : " and ") + one; }
  o.refuse("architectures", "is " + name + "; supported here: " + all);
}

config read_llama_fields(const config_object& o, int context) {
  if (o.has("hidden_act") && o.string("hidden_act") != "silu") {
    o.refuse("hidden_act", "is " + o.string("hidden_act") + "; supported is silu");
  }
  if (o.boolean("mlp_bias", false)) { o.refuse("mlp_bias", "is true; not supported"); }
  config out;
  out.vocab_size = o.integer("vocab_size", config::max_tokens);
  out.hidden = o.integer("hidden_size", config::max_hidden);
  out.intermediate = o.integer("intermediate_size", 8 * config::max_hidden);
  out.layers = o.integer("num_hidden_layers", config::max_layers);
  out.heads = o.integer("num_attention_heads", config::max_heads);
  out.kv_heads = o.integer_or("num_key_value_heads", out.heads, config::max_heads);
  if (out.heads == 0) { o.refuse("num_attention_heads", "must be positive"); }
  if (!o.has("head_dim") && out.hidden % out.heads != 0) {
    o.refuse("hidden_size", "is no multiple of num_attention_heads");
  }
  out.head_dim = o.integer_or("head_dim", out.hidden / out.heads, 4 * config::max_heads);
  constexpr const char* positions = "max_position_embeddings";
  out.context = context != 0 ? o.integer_or(positions, context, config::max_positions)
                             : o.integer(positions, config::max_positions);
  out.norm_epsilon = static_cast<float>(o.number("rms_norm_eps", 1e-6));
  out.tied_head = o.boolean("tie_word_embeddings", false);
  out.rope.theta = o.number("rope_theta", out.rope.theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (o.has(key)) { read_rope_scaling(o.child(key), out.rope); }
  }
  out.end_tokens = read_end_tokens(o);
  out.vocabulary = o.fingerprint("vocabulary_fingerprint");
  return out;
}

namespace {

void check_no_biases(const config_object& o) {
  if (o.boolean("attention_bias", false)) {
    o.refuse("attention_bias", "is true; not supported in this architecture");
  }
}

}  // namespace

void end_with_window(const config_object& o, bool has_windows, config& out) {
  bool any = has_windows;
  if (o.has("layer_types")) {
    any = false;
    for (const json& type : o.at("layer_types")) {
      if (type == "sliding_attention") {
        any = true;
      } else if (type != "full_attention") {
        o.refuse("layer_types",
                 "has " + type.dump() + "; supported are full_attention and sliding_attention");
      }
    }
  }
  if (!any || !o.has("sliding_window")) { return; }
  out.context = std::min(out.context, o.integer("sliding_window", config_object::any));
}

void check_llama_attention(const config_object& o) {
  check_no_biases(o);
  if (o.has("sliding_window") && o.integer("sliding_window", config_object::any) <
                                     o.integer("max_position_embeddings", config_object::any)) {
    o.refuse("sliding_window", "is shorter than the context; not supported");
  }
}

config read_qwen2_fields(const config_object& o) {
  if (!o.boolean("attention_bias", true)) {
    o.refuse("attention_bias", "is false; this architecture has them");
  }
  config out = read_llama_fields(o);
  out.qkv_bias = true;
  return out;
}

std::vector<int> read_end_tokens(const config_object& o) {
  std::vector<int> out;
  if (!o.has("eos_token_id")) { return out; }
  const json& end = o.at("eos_token_id");
  for (const json& token : end.is_array() ? end : json::array({end})) {
    if (!token.is_number_integer()) { o.refuse("eos_token_id", "is not an integer or a list"); }
    if (token < 0 || token >= config::max_tokens) {
      o.refuse("eos_token_id", "is " + token.dump() + ", out of range");
    }
    out.push_back(token.get<int>());
  }
  return out;
}

void check_shape(const config& shape, const std::filesystem::path& file) {
  try {
    shape.check();
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(file.string() + ": " + error.what());
  }
}

namespace {

/// Those that another file names, if it is there: more than the config, of models that converse.
void add_end_tokens(const std::filesystem::path& file, std::vector<int>& to) {
  if (!std::filesystem::exists(file)) { return; }
  const json values = parsed_json(file);
  for (const int token : read_end_tokens({values, file.string()})) {
    if (std::find(to.begin(), to.end(), token) == to.end()) { to.push_back(token); }
  }
}

}  // namespace

config read_config(const std::filesystem::path& file) {
  const json values = parsed_json(file);
  const object o{values, file.string()};
  const std::string architecture = architecture_of(
      o, {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"});
  config out;
  if (architecture == "Qwen2ForCausalLM") {
    out = read_qwen2_fields(o);
  } else {
    check_no_biases(o);
    out = read_llama_fields(o, architecture == "LlamaForCausalLM" ? llama_context : 0);
    out.qk_norm = architecture == "Qwen3ForCausalLM";
  }
  add_end_tokens(file.parent_path() / "generation_config.json", out.end_tokens);
  const bool has_switch = architecture.starts_with("Qwen");
  end_with_window(o, !has_switch || o.boolean("use_sliding_window", false), out);
  check_shape(out, file);
  return out;
}

medusa_config read_medusa_config(const std::filesystem::path& file) {
  const json values = parsed_json(file);
  const object o{values, file.string()};
  architecture_of(o, {"HunchMedusaHeads"});
  return {o.integer("medusa_num_heads", config::max_layers),
          o.integer("hidden_size", config::max_hidden), o.integer("vocab_size", config::max_tokens),
          o.boolean("own_heads", false)};
}

exit_config read_exit_config(const std::filesystem::path& file) {
  const json values = parsed_json(file);
  const object o{values, file.string()};
  architecture_of(o, {"HunchEarlyExit"});
  return {o.integer("exit_layer", config::max_layers)};
}

namespace {

bool read_linear_map(const object& o) {
  constexpr const char* key = "map_activation";
  const std::string name = o.has(key) ? o.string(key) : "silu";
  if (name != "silu" && name != "none") {
    o.refuse(key, "is " + name + "; supported are silu and none");
  }
  return name == "none";
}

}  // namespace

stream_config read_stream_config(const std::filesystem::path& file) {
  const json values = parsed_json(file);
  const object o{values, file.string()};
  architecture_of(o, {"HunchSpeculativeStreams"});
  return {.streams = o.integer("speculative_streams", config::max_layers),
          .layers = o.integer("stream_layers", config::max_layers),
          .hidden = o.integer("hidden_size", config::max_hidden),
          .vocab_size = o.integer("vocab_size", config::max_tokens),
          .linear_map = read_linear_map(o)};
}

void check_target(const std::filesystem::path& config_file, std::uint64_t target_head,
                  const std::string& target) {
  constexpr const char* key = "target_head_fingerprint";
  const json values = parsed_json(config_file);
  const object o{values, config_file.string()};
  const std::string of_target = hunch::fingerprint_text(target_head);
  const std::uint64_t trained_for = o.fingerprint(key);
  if (trained_for == 0) {
    o.refuse(key, "is missing: nothing says for which target it was trained. If that is " + target +
                      ", add \"" + key + "\": \"" + of_target + "\"");
  }
  if (trained_for != target_head) {
    o.refuse(key, "is " + hunch::fingerprint_text(trained_for) + ", and that of " + target +
                      " is " + of_target + ": it was trained for another target");
  }
}

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <engine/masked_model.hpp>
#include <engine/tensors.hpp>

#include "checkpoint_files.hpp"
#include "temporary_directory.hpp"
#include "tiny_masked.hpp"

/// Masked models on disk, as LLaDA, Dream and this project write them.

namespace {

using nlohmann::json;
using test::names;

constexpr int mask_token = 74;

/// What LLaDA's config says, of the sizes of the tests.
json llada_json(const engine::config& c) {
  return {{"architectures", {"LLaDAModelLM"}},
          {"model_type", "llada"},
          {"d_model", c.hidden},
          {"n_heads", c.heads},
          {"n_kv_heads", c.kv_heads},
          {"n_layers", c.layers},
          {"mlp_hidden_size", c.intermediate},
          {"mlp_ratio", 4},
          {"vocab_size", c.vocab_size},
          {"embedding_size", c.rows_of_embedding()},
          {"max_sequence_length", c.context},
          {"rope", true},
          {"rope_full_precision", true},
          {"rope_theta", c.rope.theta},
          {"rms_norm_eps", 1e-5},
          {"layer_norm_type", "rms"},
          {"layer_norm_with_affine", true},
          {"attention_layer_norm", false},
          {"bias_for_layer_norm", false},
          {"block_type", "llama"},
          {"block_group_size", 1},
          {"activation_type", "silu"},
          {"include_bias", false},
          {"include_qkv_bias", false},
          {"alibi", false},
          {"multi_query_attention", nullptr},
          {"input_emb_norm", false},
          {"scale_logits", false},
          {"weight_tying", c.tied_head},
          {"mask_token_id", mask_token},
          {"eos_token_id", 2}};
}

/// Dream's config has the fields of a Llama's.
json dream_json(const engine::config& c) {
  json out = test::config_json(c);
  out["architectures"] = {"DreamModel"};
  out["model_type"] = "Dream";
  out["mask_token_id"] = mask_token;
  out["sliding_window"] = 64;
  out["use_sliding_window"] = false;
  return out;
}

json own_json(const engine::config& c) {
  json out = test::config_json(c);
  out["architectures"] = {"HunchMaskedLlama"};
  out["mask_token_id"] = mask_token;
  out["attention"] = "causal_prefix";
  out["block_length"] = 4;
  out["shifted"] = true;
  return out;
}

/// Heads as these configs have them: of the hidden size together.
engine::config shape_on_disk() {
  engine::config c = test::tiny_config();
  c.heads = 4;
  return c;
}

/// A directory with a masked model, and the same weights under the names of a Llama.
struct directory {
  test::temporary_directory where;
  engine::config shape;
  json config;
  engine::checkpoint weights;

  directory(const engine::config& c, json values, engine::dtype type)
      : shape{c}, config(std::move(values)) {
    auto tensors = test::random_tensors(c, type);
    // The textbook's: its vocabulary is all that the embedding has.
    shape.names = engine::config::naming::llama;
    shape.vocab_size = c.rows_of_embedding();
    shape.embedding_rows = 0;
    auto plain = test::random_tensors(shape, type);
    REQUIRE(plain.size() == tensors.size());
    weights = test::in_memory(plain);
    test::write_safetensors(where.path() / test::weights_file, test::header_of(tensors).dump(),
                            tensors);
    write(config);
  }

  void write(const json& values) const {
    test::write_text(where.path() / "config.json", values.dump());
  }

  engine::masked_model load() const {
    return engine::masked_model::load(where.path(), {.kind = engine::arithmetic::f32});
  }

  /// What loading says after a change to the config; empty if it loads.
  std::string complaint_after(const std::function<void(json&)>& change) const {
    json values = config;
    change(values);
    write(values);
    std::string out;
    try {
      load();
    } catch (const std::runtime_error& error) { out = error.what(); }
    return out;
  }

  void expect(const std::function<void(json&)>& change, const std::string& key) const {
    CAPTURE(key);
    CHECK(names(complaint_after(change), {"config.json", key}));
  }
  void expect_value(const std::string& key, const json& value) const {
    expect([&](json& values) { values[key] = value; }, key);
  }
  void expect_missing(const std::string& key) const {
    expect([&](json& values) { values.erase(key); }, key);
  }
};

/// Whether a model on disk computes what the textbook does of its weights.
void check_parity(const directory& d, test::pattern pattern, bool shifted) {
  engine::masked_model m = d.load();
  CHECK(m.mask_token() == mask_token);
  CHECK(m.shape().pattern == pattern);
  CHECK(m.shape().shifted == shifted);
  CHECK(m.shape().model.end_tokens == std::vector<int>{2});
  engine::masked_config shape = m.shape();
  const test::canvas asked = test::some_canvas(shape, 7, 3);
  shape.model = d.shape;
  const auto got = test::logits(m, 0, asked);
  CHECK(static_cast<int>(got.front().size()) == m.vocab_size());
  CHECK(test::difference(got, test::textbook(shape, d.weights, asked)) < 1e-4);
}

const std::vector<engine::dtype> dtypes{engine::dtype::f32, engine::dtype::bf16, engine::dtype::i8};

}  // namespace

TEST_CASE("a LLaDA on disk") {
  for (const engine::dtype type : dtypes) {
    for (const int rows : {0, 100}) {  // the embedding may be padded
      CAPTURE(engine::to_string(type));
      CAPTURE(rows);
      engine::config c = shape_on_disk();
      c.names = engine::config::naming::llada;
      c.tied_head = type == engine::dtype::bf16;
      c.rope.theta = 500000;
      c.embedding_rows = rows;
      const directory d(c, llada_json(c), type);
      check_parity(d, test::pattern::full, false);
    }
  }
}

TEST_CASE("padding of a LLaDA's embedding is no token") {
  engine::config c = shape_on_disk();
  c.names = engine::config::naming::llada;
  c.embedding_rows = 100;
  const directory d(c, llada_json(c), engine::dtype::f32);
  const test::canvas asked{{1, 2, mask_token, 75}, 3, 4, {3}};
  engine::masked_model m = d.load();
  CHECK(m.vocab_size() == 75);
  CHECK_THROWS_AS(test::logits(m, 0, asked), std::out_of_range);
  // But for the mask, which may lie there.
  CHECK(d.complaint_after([](json& values) { values["mask_token_id"] = 75; }).empty());
  engine::masked_model other = d.load();
  CHECK(test::logits(other, 0, asked).size() == 1);
  d.expect_value("mask_token_id", 100);
  d.expect([](json& values) { values["embedding_size"] = 74; }, "embedding_rows");
}

TEST_CASE("a Dream on disk") {
  for (const engine::dtype type : dtypes) {
    CAPTURE(engine::to_string(type));
    engine::config c = shape_on_disk();
    c.qkv_bias = true;
    c.tied_head = type == engine::dtype::bf16;
    const directory d(c, dream_json(c), type);
    check_parity(d, test::pattern::full, true);
  }
}

TEST_CASE("a masked Llama on disk") {
  for (const engine::dtype type : dtypes) {
    CAPTURE(engine::to_string(type));
    const engine::config c = test::tiny_config();
    const directory d(c, own_json(c), type);
    check_parity(d, test::pattern::causal_prefix, true);
    CHECK(d.load().shape().block_length == 4);
    json values = own_json(c);
    values["attention"] = "full";
    values["shifted"] = false;
    d.write(values);
    check_parity(d, test::pattern::full, false);
  }
}

TEST_CASE("what the engine does not do of LLaDA is refused by key") {
  engine::config c = shape_on_disk();
  c.names = engine::config::naming::llada;
  const directory d(c, llada_json(c), engine::dtype::f32);
  for (const char* key :
       {"architectures", "block_type", "activation_type", "layer_norm_type", "rope", "vocab_size",
        "d_model", "mlp_hidden_size", "n_layers", "n_heads", "max_sequence_length", "rms_norm_eps",
        "rope_theta", "weight_tying", "mask_token_id"}) {
    d.expect_missing(key);
    d.expect_value(key, json::object());
  }
  for (const char* key :
       {"include_bias", "include_qkv_bias", "bias_for_layer_norm", "alibi", "attention_layer_norm",
        "multi_query_attention", "input_emb_norm", "scale_logits"}) {
    d.expect_value(key, true);
  }
  d.expect_value("rope", false);
  d.expect_value("layer_norm_with_affine", false);
  d.expect_value("layer_norm_type", "default");
  d.expect_value("block_type", "sequential");
  d.expect_value("activation_type", "swiglu");
  d.expect_value("block_group_size", 2);
  d.expect_value("clip_qkv", 8.0);
  d.expect_value("n_heads", 0);
  d.expect_value("n_heads", 3);
  d.expect([](json& values) { values["n_heads"] = 3; }, "d_model");
  d.expect([](json& values) { values["n_kv_heads"] = 3; }, "kv_heads");
  d.expect_value("eos_token_id", "x");
  d.expect_value("mask_token_id", 75);
  d.expect_value("mask_token_id", -1);
  for (const char* key : {"vocab_size", "embedding_size", "d_model", "mlp_hidden_size", "n_layers",
                          "n_heads", "n_kv_heads", "max_sequence_length", "mask_token_id"}) {
    d.expect_value(key, 2147483647);
  }
  CHECK(names(d.complaint_after([](json& values) { values["n_layers"] = 3; }),
              {"model.transformer.blocks.2.attn_norm.weight", "is missing"}));
  CHECK(names(d.complaint_after([](json& values) { values["embedding_size"] = 80; }),
              {"model.transformer.wte.weight", "has shape"}));
}

TEST_CASE("what the engine does not do of Dream is refused by key") {
  engine::config c = shape_on_disk();
  c.qkv_bias = true;
  const directory d(c, dream_json(c), engine::dtype::f32);
  d.expect_missing("mask_token_id");
  d.expect_missing("hidden_size");
  d.expect_value("hidden_act", "gelu");
  d.expect_value("mlp_bias", true);
  d.expect_value("attention_bias", false);
  d.expect_value("use_sliding_window", true);
  d.expect_value("rope_scaling", {{"rope_type", "yarn"}});
  CHECK(d.complaint_after([](json& values) { values["sliding_window"] = nullptr; }).empty());

  engine::config plain = c;
  plain.qkv_bias = false;
  const directory unbiased(plain, dream_json(plain), engine::dtype::f32);
  CHECK(names(unbiased.complaint_after([](json&) {}),
              {"model.layers.0.self_attn.q_proj.bias", "is missing"}));
}

TEST_CASE("what the engine does not do of masked Llamas is refused by key") {
  const engine::config c = test::tiny_config();
  const directory d(c, own_json(c), engine::dtype::f32);
  for (const char* key :
       {"mask_token_id", "attention", "shifted", "block_length", "num_hidden_layers"}) {
    d.expect_missing(key);
    d.expect_value(key, json::object());
  }
  d.expect_value("attention", "causal");
  d.expect_value("block_length", 0);
  d.expect_value("block_length", -8);
  d.expect_value("block_length", 2147483647);
  d.expect_value("shifted", 1);
  d.expect_value("attention_bias", true);
  d.expect_value("mlp_bias", true);
  d.expect_value("sliding_window", 64);
  d.expect_value("mask_token_id", 75);
  d.expect_value("architectures", {"LlamaForCausalLM"});
  CHECK(names(d.complaint_after([](json& values) { values["architectures"] = {"GPT2"}; }),
              {"is GPT2; supported here: LLaDAModelLM and DreamModel and HunchMaskedLlama"}));
}

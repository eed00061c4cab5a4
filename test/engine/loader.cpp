// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <hunch/tools/fingerprints.hpp>

#include "checkpoint_files.hpp"
#include "temporary_directory.hpp"
#include "tiny_model.hpp"

/// Checkpoints on disk: what is read, and what is said of every damage.

namespace {

using nlohmann::json;
using test::config_json;
using test::header_of;
using test::names;
using test::weights_file;
using test::write_safetensors;
using test::write_text;

const char* const index_file = "model.safetensors.index.json";

/// A directory with a good tiny model, to be damaged.
struct good_model {
  test::temporary_directory directory;
  engine::config shape = test::tiny_config();
  std::vector<test::stored_tensor> tensors;

  explicit good_model(engine::dtype type = engine::dtype::f32)
      : tensors{test::random_tensors(shape, type)} {
    write_text(path("config.json"), config_json(shape).dump());
    write_safetensors(path(weights_file), header_of(tensors).dump(), tensors);
  }

  std::filesystem::path path(const std::string& name) const { return directory.path() / name; }

  std::vector<float> logits() const {
    engine::model m = engine::model::load(directory.path(), {.kind = engine::arithmetic::f32});
    test::row_batch rows;
    rows.add_chain(0, 0, {1, 2, 3});
    return test::copy(m.evaluate(rows.view()).logits(2));
  }

  /// What loading says; empty if it loads.
  std::string complaint() const {
    try {
      engine::model::load(directory.path());
    } catch (const std::runtime_error& error) { return error.what(); }
    return {};
  }

  /// What loading says after a change to the header of the weights.
  std::string complaint_after(const std::function<void(json&)>& change) const {
    json header = header_of(tensors);
    change(header);
    write_safetensors(path(weights_file), header.dump(), tensors);
    return complaint();
  }

  std::string complaint_after_config(const std::function<void(json&)>& change) const {
    json values = config_json(shape);
    change(values);
    write_text(path("config.json"), values.dump());
    return complaint();
  }
};

const std::string some_tensor = "model.layers.1.mlp.down_proj.weight";

}  // namespace

TEST_CASE("every dtype loads from disk as from memory") {
  using engine::dtype;
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::i8}) {
    CAPTURE(engine::to_string(type));
    const good_model m(type);
    engine::model in_memory(m.shape, test::in_memory(m.tensors), {.kind = engine::arithmetic::f32});
    test::row_batch rows;
    rows.add_chain(0, 0, {1, 2, 3});
    CHECK(m.logits() == test::copy(in_memory.evaluate(rows.view()).logits(2)));
  }
}

TEST_CASE("scales of I8 may be [rows, 1]") {
  good_model m(engine::dtype::i8);
  const std::vector<float> expected = m.logits();
  for (auto& t : m.tensors) {
    if (t.name.ends_with("_scale")) { t.shape.push_back(1); }
  }
  write_safetensors(m.path(weights_file), header_of(m.tensors).dump(), m.tensors);
  CHECK(m.logits() == expected);
}

TEST_CASE("shards") {
  const good_model m;
  const std::vector<float> expected = m.logits();
  const auto half = m.tensors.begin() + static_cast<std::ptrdiff_t>(m.tensors.size() / 2);
  const std::vector<test::stored_tensor> first(m.tensors.begin(), half);
  const std::vector<test::stored_tensor> second(half, m.tensors.end());
  write_safetensors(m.path("a.safetensors"), header_of(first).dump(), first);
  write_safetensors(m.path("b.safetensors"), header_of(second).dump(), second);
  std::filesystem::remove(m.path(weights_file));
  json index{{"metadata", json::object()}};
  for (const auto& t : first) { index["weight_map"][t.name] = "a.safetensors"; }
  for (const auto& t : second) { index["weight_map"][t.name] = "b.safetensors"; }

  write_text(m.path(index_file), index.dump());
  CHECK(m.logits() == expected);

  SUBCASE("a shard that does not exist") {
    index["weight_map"][some_tensor] = "c.safetensors";
    write_text(m.path(index_file), index.dump());
    CHECK(names(m.complaint(), {index_file, some_tensor, "c.safetensors"}));
  }
  SUBCASE("a tensor that is in no shard") {
    index["weight_map"]["ghost"] = "a.safetensors";
    write_text(m.path(index_file), index.dump());
    CHECK(names(m.complaint(), {index_file, "ghost", "a.safetensors"}));
  }
  SUBCASE("a tensor in two shards") {
    write_safetensors(m.path("b.safetensors"), header_of(m.tensors).dump(), m.tensors);
    CHECK(names(m.complaint(), {"b.safetensors", "is also in", "a.safetensors"}));
  }
  SUBCASE("a shard outside the directory") {
    index["weight_map"][some_tensor] = "../c.safetensors";
    write_text(m.path(index_file), index.dump());
    CHECK(names(m.complaint(), {index_file, some_tensor, "outside"}));
  }
  SUBCASE("bad indices") {
    for (const char* text : {"", "{", "[]", "{\"weight_map\": 3}"}) {
      write_text(m.path(index_file), text);
      CHECK(names(m.complaint(), {index_file}));
    }
    write_text(m.path(index_file), "{\"weight_map\": {\"x\": 3}}");
    CHECK(names(m.complaint(), {index_file, "\"x\""}));
  }
}

TEST_CASE("the only safetensors file of a directory may have any name") {
  const good_model m;
  const std::vector<float> expected = m.logits();
  std::filesystem::rename(m.path(weights_file), m.path("medusa_lm_head.safetensors"));
  CHECK(m.logits() == expected);
  std::filesystem::copy(m.path("medusa_lm_head.safetensors"), m.path("a.safetensors"));
  CHECK(names(m.complaint(), {m.directory.path().string(), "a.safetensors",
                              "medusa_lm_head.safetensors", index_file}));
}

TEST_CASE("files that are missing or cut off are named") {
  const good_model m;
  SUBCASE("no config") {
    std::filesystem::remove(m.path("config.json"));
    CHECK(names(m.complaint(), {"config.json"}));
  }
  SUBCASE("no weights") {
    std::filesystem::remove(m.path(weights_file));
    CHECK(names(m.complaint(), {weights_file}));
  }
  SUBCASE("weights that PyTorch pickled") {
    std::filesystem::remove(m.path(weights_file));
    const auto convert = [](const std::filesystem::path& from) {
      return "examples/recipes/convert.py --model " + from.string() + " --out";
    };
    write_text(m.path("medusa_lm_head.pt"), "");
    CHECK(names(m.complaint(), {"medusa_lm_head.pt: ", convert(m.path("medusa_lm_head.pt"))}));
    const char* const shard = "pytorch_model-00001-of-00002.bin";
    write_text(m.path(shard), "");
    CHECK(names(m.complaint(), {shard, convert(m.directory.path())}));
  }
  SUBCASE("any length of the weights") {
    const auto size = std::filesystem::file_size(m.path(weights_file));
    for (std::uintmax_t length : {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{8},
                                  std::uintmax_t{100}, size / 2, size - 1}) {
      CAPTURE(length);
      std::filesystem::resize_file(m.path(weights_file), length);
      CHECK(names(m.complaint(), {weights_file}));
      write_safetensors(m.path(weights_file), header_of(m.tensors).dump(), m.tensors);
    }
    std::filesystem::resize_file(m.path(weights_file), size - 1);
    CHECK(names(m.complaint(), {weights_file, "tensor", "truncated"}));
  }
  SUBCASE("a header length beyond the file") {
    std::fstream file(m.path(weights_file), std::ios::binary | std::ios::in | std::ios::out);
    for (int i = 0; i < 8; ++i) { file.put('\xff'); }
    file.close();
    CHECK(names(m.complaint(), {weights_file, "beyond the file"}));
  }
  SUBCASE("a header that is no JSON") {
    write_safetensors(m.path(weights_file), "{\"a\": ", m.tensors);
    CHECK(names(m.complaint(), {weights_file, "bad JSON"}));
    write_safetensors(m.path(weights_file), "[1]", m.tensors);
    CHECK(names(m.complaint(), {weights_file, "not a JSON object"}));
  }
  SUBCASE("a directory in the place of a file") {
    std::filesystem::remove(m.path(weights_file));
    std::filesystem::create_directory(m.path(weights_file));
    CHECK(names(m.complaint(), {weights_file}));
  }
}

TEST_CASE("damaged tensors are named") {
  const good_model m;
  const auto expect = [&](const std::function<void(json&)>& change,
                          std::vector<std::string> words) {
    words.push_back(weights_file);
    CHECK(names(m.complaint_after(change), words));
  };
  const auto some = [](json& header) -> json& { return header[some_tensor]; };

  // A missing tensor is missing in all files: the message has the directory.
  CHECK(names(m.complaint_after([&](json& h) { h.erase(some_tensor); }),
              {m.directory.path().string(), some_tensor, "is missing"}));
  CHECK(names(m.complaint_after([&](json& h) { h.erase("lm_head.weight"); }),
              {"lm_head.weight", "is missing"}));
  expect(
      [&](json& h) {
        some(h)["shape"] = {m.shape.intermediate, m.shape.hidden};
      },
      {some_tensor, "has shape", "expected"});
  expect([&](json& h) { some(h)["shape"] = {3, 5}; }, {some_tensor, "bytes"});
  expect([&](json& h) { some(h)["shape"] = {-1, 5}; }, {some_tensor, "impossible"});
  expect(
      [&](json& h) {
        some(h)["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40};
      },
      {some_tensor, "impossible"});
  expect([&](json& h) { some(h)["shape"] = {"x"}; }, {some_tensor, "impossible"});
  expect([&](json& h) { some(h)["dtype"] = "I32"; }, {some_tensor, "I32"});
  expect([&](json& h) { some(h)["dtype"] = 3; }, {some_tensor});
  expect([&](json& h) { some(h)["dtype"] = "F16"; }, {some_tensor, "bytes"});
  expect([&](json& h) { some(h)["data_offsets"] = {-8, 0}; }, {some_tensor, "data_offsets"});
  expect([&](json& h) { some(h)["data_offsets"] = {8, 0}; }, {some_tensor, "data_offsets"});
  expect([&](json& h) { some(h)["data_offsets"] = {0}; }, {some_tensor, "data_offsets"});
  expect([&](json& h) { some(h)["data_offsets"] = "x"; }, {some_tensor, "data_offsets"});
  expect([&](json& h) { some(h).erase("shape"); }, {some_tensor, "lacks"});
  expect([&](json& h) { some(h) = 7; }, {some_tensor, "lacks"});
  expect(
      [&](json& h) {
        const auto bytes = some(h)["data_offsets"][1].get<std::int64_t>() -
                           some(h)["data_offsets"][0].get<std::int64_t>();
        some(h)["data_offsets"] = {std::int64_t{1} << 40, (std::int64_t{1} << 40) + bytes};
      },
      {some_tensor, "truncated"});
  expect(
      [&](json& h) {
        const auto bytes = some(h)["data_offsets"][1].get<std::int64_t>() -
                           some(h)["data_offsets"][0].get<std::int64_t>();
        some(h)["data_offsets"] = {4, 4 + bytes};
      },
      {"overlaps"});
}

TEST_CASE("damaged scales are named") {
  good_model m(engine::dtype::i8);
  const std::string scale = some_tensor + "_scale";
  CHECK(names(m.complaint_after([&](json& h) { h.erase(scale); }), {scale, "is missing"}));
  CHECK(names(m.complaint_after([&](json& h) {
    h[scale]["shape"] = {1, m.shape.hidden};
  }),
              {weights_file, scale, "has shape"}));
  for (auto& t : m.tensors) {
    if (t.name == scale) {
      t.type = engine::dtype::bf16;
      t.shape = {m.shape.hidden, 2};
    }
  }
  CHECK(names(m.complaint_after([](json&) {}), {weights_file, scale, "has dtype BF16"}));
}

TEST_CASE("norms are not integers") {
  good_model m;
  for (auto& t : m.tensors) {
    if (t.name == "model.norm.weight") {
      t.type = engine::dtype::i8;
      t.bytes.resize(t.bytes.size() / 4);
    }
  }
  CHECK(names(m.complaint_after([](json&) {}), {weights_file, "model.norm.weight", "I8"}));
}

TEST_CASE("what the engine does not do is refused by key") {
  const good_model m;
  const auto expect = [&](const std::function<void(json&)>& change, const std::string& key) {
    CAPTURE(key);
    CHECK(names(m.complaint_after_config(change), {"config.json", key}));
  };
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings", "architectures"}) {
    if (key != std::string("max_position_embeddings")) {
      expect([&](json& c) { c.erase(key); }, key);
    }
    expect([&](json& c) { c[key] = "x"; }, key);
  }
  for (const char* key : {"vocab_size", "hidden_size", "num_attention_heads"}) {
    expect([&](json& c) { c[key] = -1; }, key);
    expect([&](json& c) { c[key] = std::int64_t{1} << 33; }, key);
  }
  expect([](json& c) { c["architectures"] = {"GPT2LMHeadModel"}; }, "GPT2LMHeadModel");
  expect([](json& c) { c["hidden_act"] = "gelu"; }, "gelu");
  expect([](json& c) { c["attention_bias"] = true; }, "attention_bias");
  expect([](json& c) { c["mlp_bias"] = true; }, "mlp_bias");
  expect([](json& c) { c["layer_types"] = {"chunked_attention"}; }, "layer_types");
  expect([](json& c) { c["rope_scaling"] = {{"rope_type", "yarn"}}; }, "yarn");
  expect([](json& c) { c["rope_scaling"] = {{"type", "linear"}}; }, "factor");
  expect([](json& c) { c["rope_scaling"] = {{"type", "linear"}, {"factor", 0}}; }, "factor");
  expect([](json& c) { c["rope_scaling"] = 3; }, "rope_scaling");
  expect([](json& c) { c["tie_word_embeddings"] = 1; }, "tie_word_embeddings");
  expect([](json& c) { c["eos_token_id"] = "x"; }, "eos_token_id");
  expect([](json& c) { c["rms_norm_eps"] = "x"; }, "rms_norm_eps");
  expect([](json& c) { c["num_key_value_heads"] = 4; }, "kv_heads");
  expect([](json& c) { c["head_dim"] = 9; }, "head_dim");
  expect([](json& c) { c["num_attention_heads"] = 0; }, "num_attention_heads");
  write_text(m.path("config.json"), "{");
  CHECK(names(m.complaint(), {"config.json", "bad JSON"}));
  write_text(m.path("config.json"), "[]");
  CHECK(names(m.complaint(), {"config.json", "not a JSON object"}));
}

TEST_CASE("sizes that no model has are refused by key, before memory is asked for") {
  const good_model m;
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "num_key_value_heads", "head_dim",
                          "max_position_embeddings", "eos_token_id"}) {
    CAPTURE(key);
    for (const std::int64_t value : {std::int64_t{2147483647}, std::int64_t{1} << 40}) {
      CHECK(
          names(m.complaint_after_config([&](json& c) { c[key] = value; }), {"config.json", key}));
    }
    CHECK(names(m.complaint_after_config([&](json& c) { c[key] = ~std::uint64_t{0}; }),
                {"config.json", key}));
  }
  for (const std::int64_t value : {std::int64_t{2147483647}, std::int64_t{0}}) {
    CHECK(names(m.complaint_after_config([&](json& c) {
      c["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", 8},
                           {"low_freq_factor", 1},
                           {"high_freq_factor", 4},
                           {"original_max_position_embeddings", value}};
    }),
                {"config.json", "original_max_position_embeddings"}));
  }
  // The largest that are allowed, where the file has another shape: petabytes, were they believed.
  CHECK(names(m.complaint_after_config([](json& c) {
    c["vocab_size"] = engine::config::max_tokens;
    c["hidden_size"] = engine::config::max_hidden;
  }),
              {weights_file, "model.embed_tokens.weight", "has shape"}));
  CHECK(names(m.complaint_after_config([](json& c) {
    c["num_hidden_layers"] = engine::config::max_layers;
    c["intermediate_size"] = 8 * engine::config::max_hidden;
  }),
              {"model.layers.0.mlp.gate_proj.weight", "has shape"}));
  CHECK(names(m.complaint_after_config(
                  [](json& c) { c["num_hidden_layers"] = engine::config::max_layers; }),
              {"model.layers.2.input_layernorm.weight", "is missing"}));
  // In memory, too.
  engine::config shape = m.shape;
  shape.intermediate = 2147483647;
  CHECK_THROWS_WITH_AS(shape.check(),
                       "engine::config: intermediate is 2147483647, and may be 2097152",
                       std::invalid_argument);
}

TEST_CASE("headers and configs that are longer than any are not read") {
  const good_model m;
  const auto resized = [&](const char* name, std::uintmax_t size) {
    std::filesystem::resize_file(m.path(name), size);  // a hole: no bytes on the disk
    return m.complaint();
  };
  CHECK(names(resized("config.json", std::uintmax_t{1} << 32),
              {"config.json", "more than any file of its kind"}));
  write_text(m.path("config.json"), config_json(m.shape).dump());
  std::string length(8, '\0');
  length[3] = 8;  // 2^27
  write_text(m.path(weights_file), length);
  CHECK(names(resized(weights_file, std::uintmax_t{1} << 28), {weights_file, "longer than any"}));
  write_text(m.path(weights_file), std::string(8, '\xff'));
  CHECK(names(m.complaint(), {weights_file, "reaches beyond the file"}));
  // A header of nothing but brackets.
  write_safetensors(m.path(weights_file), std::string(100000, '['), {});
  CHECK(names(m.complaint(), {weights_file, "bad JSON"}));
  const std::string nested(100000, '[');
  write_text(m.path("config.json"), nested + std::string(100000, ']'));
  CHECK(names(m.complaint(), {"config.json", "nested more than 64 deep"}));
}

TEST_CASE("what the engine does is read from the config") {
  const good_model m;
  CHECK(m.complaint_after_config([](json& c) {
           c["architectures"] = {"MistralForCausalLM"};
           c["sliding_window"] = 4096;
           c["rope_scaling"] = nullptr;
         }).empty());
  json values = config_json(m.shape);
  values["eos_token_id"] = {2, 5};
  values.erase("head_dim");
  values["hidden_size"] = 60;
  values["rope_parameters"] = {{"rope_theta", 5e5},     {"rope_type", "llama3"},
                               {"factor", 8},           {"low_freq_factor", 1},
                               {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};
  write_text(m.path("config.json"), values.dump());
  const engine::config c = engine::read_config(m.path("config.json"));
  CHECK(c.end_tokens == std::vector<int>{2, 5});
  write_text(m.path("generation_config.json"), R"({"eos_token_id": [5, 7]})");
  CHECK(engine::read_config(m.path("config.json")).end_tokens == std::vector<int>{2, 5, 7});
  write_text(m.path("generation_config.json"), R"({"eos_token_id": "x"})");
  CHECK_THROWS(engine::read_config(m.path("config.json")));
  CHECK(c.head_dim == 10);
  CHECK(c.rope.kind == engine::rope_config::scaling::llama3);
  CHECK(c.rope.theta == 5e5);
  CHECK(c.rope.factor == 8.0);
}

TEST_CASE("architectures that are a Llama but for a few things") {
  const good_model m;
  const auto read = [&](const char* architecture, const json& more = json::object()) {
    json values = config_json(m.shape);
    values["architectures"] = {architecture};
    values.update(more);
    write_text(m.path("config.json"), values.dump());
    return engine::read_config(m.path("config.json"));
  };
  CHECK_FALSE(read("LlamaForCausalLM").qkv_bias);
  CHECK(read("Qwen2ForCausalLM").qkv_bias);
  CHECK_FALSE(read("Qwen2ForCausalLM").qk_norm);
  CHECK(read("Qwen3ForCausalLM").qk_norm);
  CHECK_FALSE(read("Qwen3ForCausalLM").qkv_bias);
  CHECK_THROWS(read("Qwen3ForCausalLM", {{"attention_bias", true}}));
  CHECK_THROWS(read("Qwen2ForCausalLM", {{"attention_bias", false}}));

  // Only a Llama's context is known where its config does not say it.
  const json unsaid{{"max_position_embeddings", nullptr}};
  CHECK(read("LlamaForCausalLM", unsaid).context == 2048);
  for (const char* other : {"MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    CHECK_THROWS(read(other, unsaid));
  }

  // A window ends the context, where there is one.
  const int whole = m.shape.context;
  const json window{{"sliding_window", 64}};
  CHECK(read("MistralForCausalLM", window).context == 64);
  CHECK(read("MistralForCausalLM", {{"sliding_window", nullptr}}).context == whole);
  CHECK(read("MistralForCausalLM", {{"sliding_window", 4096}}).context == whole);
  for (const char* qwen : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    CHECK(read(qwen, window).context == whole);
    json used = window;
    used["use_sliding_window"] = true;
    CHECK(read(qwen, used).context == 64);
    used["layer_types"] = {"full_attention", "full_attention"};
    CHECK(read(qwen, used).context == whole);
    used["layer_types"] = {"full_attention", "sliding_attention"};
    CHECK(read(qwen, used).context == 64);
  }
}

TEST_CASE("draft heads and exits on disk") {
  const engine::config c = test::small_config();
  engine::model target(c, test::random_checkpoint(c));
  const test::temporary_directory directory;
  const auto config_file = directory.path() / "config.json";
  std::vector<test::stored_tensor> tensors;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    std::size_t size = 1;
    for (const std::int64_t n : shape) { size *= static_cast<std::size_t>(n); }
    for (auto& t : test::encode(name, std::vector<float>(size, 0.25f), shape, engine::dtype::f32)) {
      tensors.push_back(t);
    }
  };
  add("medusa.0.weight", {c.hidden, c.hidden});
  add("medusa.1.weight", {c.hidden, c.hidden});
  add("exit.norm.weight", {c.hidden});
  add("exit.down.weight", {8, c.hidden});
  add("exit.up.weight", {c.hidden, 8});
  write_safetensors(directory.path() / weights_file, header_of(tensors).dump(), tensors);

  const std::string of_target = hunch::fingerprint_text(target.head_fingerprint());
  const json heads{{"architectures", {"HunchMedusaHeads"}},
                   {"medusa_num_heads", 2},
                   {"hidden_size", c.hidden},
                   {"vocab_size", c.vocab_size},
                   {"target_head_fingerprint", of_target}};
  const json exit{{"architectures", {"HunchEarlyExit"}},
                  {"exit_layer", 1},
                  {"target_head_fingerprint", of_target}};
  const auto load_heads = [&] { return engine::medusa_heads::load(directory.path(), target); };
  const auto load_exit = [&] { return engine::early_exit::load(directory.path(), target); };
  write_text(config_file, heads.dump());
  CHECK(load_heads().heads() == 2);
  write_text(config_file, exit.dump());
  CHECK(load_exit().layers() == 1);

  const auto complaint = [&](const json& values, const auto& load) {
    write_text(config_file, values.dump());
    try {
      load();
    } catch (const std::runtime_error& error) { return std::string(error.what()); }
    return std::string();
  };
  CHECK(names(complaint(exit, load_heads), {"is HunchEarlyExit; supported"}));
  CHECK(names(complaint(heads, load_exit), {"is HunchMedusaHeads; supported"}));
  CHECK(names(complaint(config_json(c), load_exit), {"is LlamaForCausalLM; supported"}));
  for (const char* key : {"medusa_num_heads", "hidden_size", "vocab_size"}) {
    json values = heads;
    values.erase(key);
    CHECK(names(complaint(values, load_heads), {key, "is missing"}));
  }
  json values = exit;
  values.erase("exit_layer");
  CHECK(names(complaint(values, load_exit), {"exit_layer", "is missing"}));
  for (const char* key : {"medusa_num_heads", "hidden_size", "vocab_size"}) {
    values = heads;
    values[key] = 2147483647;
    CHECK(names(complaint(values, load_heads), {"config.json", key, "2147483647"}));
  }
  values = exit;
  values["exit_layer"] = 2147483647;
  CHECK(names(complaint(values, load_exit), {"config.json", "exit_layer", "2147483647"}));
  const auto load_streams = [&] {
    return engine::speculative_streams::load(directory.path(), target);
  };
  const json streams{{"architectures", {"HunchSpeculativeStreams"}},
                     {"speculative_streams", 2},
                     {"stream_layers", 1},
                     {"hidden_size", c.hidden},
                     {"vocab_size", c.vocab_size},
                     {"target_head_fingerprint", of_target}};
  for (const char* key : {"speculative_streams", "stream_layers", "hidden_size", "vocab_size"}) {
    values = streams;
    values[key] = 2147483647;
    CHECK(names(complaint(values, load_streams), {"config.json", key, "2147483647"}));
  }
}

TEST_CASE("options outside their range are refused") {
  const engine::config c = test::tiny_config();
  const auto weights = test::random_checkpoint(c);
  CHECK_THROWS_AS(engine::model(c, weights, {.threads = 0}), std::invalid_argument);
  CHECK_THROWS_AS(engine::model(c, weights, {.max_batch = 0}), std::invalid_argument);
  CHECK_THROWS_AS(engine::model(c, weights, {.context = c.context + 1}), std::invalid_argument);
  CHECK_THROWS_AS(engine::model(c, weights, {.context = -1}), std::invalid_argument);
  engine::checkpoint memory;
  CHECK_THROWS_AS(memory.add("x", engine::dtype::f32, {3}, std::vector<std::byte>(11)),
                  std::invalid_argument);
}

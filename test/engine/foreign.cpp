// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sentencepiece_trainer.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/device/model.hpp>
#include <engine/early_exit.hpp>
#include <engine/masked_model.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <engine/tokenizer.hpp>
#include <engine/vocabulary.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/vocab/layouts.hpp>

#include "checkpoint_files.hpp"
#include "temporary_directory.hpp"
#include "tiny_model.hpp"

/// Files of one model beside another one of the same sizes.

namespace foreign_test {
namespace {

using nlohmann::json;
using test::names;

const std::filesystem::path models = HUNCH_TEST_MODELS;
constexpr const char* target_key = "target_head_fingerprint";

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) { return error.what(); }
  return {};
}

/// A tiny model in a directory.
struct on_disk {
  test::temporary_directory where;
  engine::config shape;
  json config;
  std::vector<test::stored_tensor> tensors;

  explicit on_disk(std::uint32_t seed, engine::config c = test::tiny_config(),
                   engine::dtype type = engine::dtype::f32)
      : shape{c}, config(test::config_json(c)), tensors{test::random_tensors(c, type, seed)} {
    write();
  }

  std::filesystem::path path() const { return where.path(); }
  std::string name() const { return path().string(); }
  void write() const {
    test::write_text(path() / "config.json", config.dump());
    test::write_safetensors(path() / test::weights_file, test::header_of(tensors).dump(), tensors);
  }
  engine::model load(engine::model_options options = {}) const {
    return engine::model::load(path(), options);
  }
};

/// An EAGLE head without embedding and head.
struct eagle_on_disk : on_disk {
  explicit eagle_on_disk(std::uint64_t target_head) : on_disk(5) {
    std::erase_if(tensors, [](const auto& t) {
      return t.name.starts_with("model.embed_tokens") || t.name.starts_with("lm_head");
    });
    const auto width = static_cast<std::size_t>(shape.hidden);
    const std::vector<float> fc(2 * width * width, 0.01f);
    for (auto& t : test::encode("model.fc.weight", fc, {shape.hidden, 2 * shape.hidden},
                                engine::dtype::f32)) {
      tensors.push_back(std::move(t));
    }
    config[target_key] = hunch::fingerprint_text(target_head);
    write();
  }
};

/// A model of the shape of a shipped one that has learnt nothing.
engine::model foreign_target() {
  const engine::config c = engine::read_config(models / "target" / "config.json");
  return {c, test::random_checkpoint(c, engine::dtype::i8, 9), {.keep_features = true}};
}

void train_tokenizer(const std::filesystem::path& directory, const std::string& words) {
  const auto text = directory / "text.txt";
  std::ofstream out(text);
  for (int i = 0; i < 200; ++i) { out << words << " " << i << "\n"; }
  out.close();
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + text.string() + " --model_prefix=" + (directory / "tokenizer").string() +
      " --vocab_size=290 --model_type=bpe --byte_fallback=true --minloglevel=2");
  REQUIRE_MESSAGE(status.ok(), status.ToString());
}

}  // namespace

TEST_CASE("copies of a checkpoint have its head's fingerprint, whatever they do with it") {
  using engine::dtype;
  for (const bool tied : {false, true}) {
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16, dtype::i8}) {
      CAPTURE(tied);
      CAPTURE(engine::to_string(type));
      engine::config c = test::tiny_config();
      c.tied_head = tied;
      const auto weights = test::random_checkpoint(c, type);
      engine::model first(c, weights, {.kind = engine::arithmetic::f32});
      const std::uint64_t expected = first.head_fingerprint();
      CHECK(expected != engine::model(c, test::random_checkpoint(c, type, 2)).head_fingerprint());
      for (const engine::arithmetic kind : test::arithmetics()) {
        engine::model copy(c, weights, {.kind = kind});
        std::vector<hunch::token> reversed;
        for (int t = c.vocab_size; t-- > 0;) { reversed.push_back(t); }
        copy.set_head_layout(hunch::vocab_layout::permuted(reversed, c.vocab_size));
        CHECK(copy.head_fingerprint() == expected);
        CHECK(copy.head_order() != first.head_order());
      }
      engine::device_model<hunch::executor::host> on_executor(c, weights, {.max_length = 16});
      CHECK(on_executor.head_fingerprint() == expected);
      CHECK(on_executor.made_for().head == first.made_for().head);
    }
  }
  // A file in bfloat16 is a copy of one in float.
  const engine::config c = test::tiny_config();
  CHECK(engine::model(c, test::random_checkpoint(c, dtype::f32)).head_fingerprint() ==
        engine::model(c, test::random_checkpoint(c, dtype::bf16)).head_fingerprint());
}

TEST_CASE("an EAGLE head is loaded for its target only") {
  const on_disk a(1), b(2);
  engine::model of_a = a.load({.keep_features = true});
  engine::model of_b = b.load({.keep_features = true});
  eagle_on_disk head(of_a.head_fingerprint());
  const auto load = [&](const on_disk& target, engine::model& m) {
    return complaint_of([&] { engine::eagle_model::load(head.path(), target.path(), m); });
  };
  CHECK(load(a, of_a).empty());
  CHECK(names(load(b, of_b), {head.name() + "/config.json", target_key, b.name(),
                              hunch::fingerprint_text(of_a.head_fingerprint()),
                              hunch::fingerprint_text(of_b.head_fingerprint())}));
  // The embedding and the head of B, from its directory or from the head's own, for target A.
  CHECK(names(load(b, of_a), {head.name(), a.name(), "the head that it drafts with",
                              hunch::fingerprint_text(of_a.head_fingerprint()),
                              hunch::fingerprint_text(of_b.head_fingerprint())}));
  const auto without = head.tensors;
  for (const auto& t : b.tensors) {
    if (t.name.starts_with("lm_head")) { head.tensors.push_back(t); }
  }
  head.write();
  CHECK(names(load(a, of_a), {head.name(), a.name(), "the head that it drafts with"}));
  head.tensors = without;
  // A config that does not say is refused, with the line that says it.
  head.config.erase(target_key);
  head.write();
  CHECK(names(load(a, of_a), {head.name(), target_key, "is missing", a.name(),
                              hunch::fingerprint_text(of_a.head_fingerprint())}));
  for (const json& value : {json(3), json("3825802444398085335"), json("0x0000000000000000")}) {
    head.config[target_key] = value;
    head.write();
    CHECK(names(load(a, of_a), {head.name(), target_key}));
  }
}

TEST_CASE("an EAGLE head of other sizes is named with its target") {
  const on_disk a(1);
  engine::model of_a = a.load({.keep_features = true});
  eagle_on_disk head(of_a.head_fingerprint());
  const auto load = [&] {
    return complaint_of([&] { engine::eagle_model::load(head.path(), a.path(), of_a); });
  };
  const json good = head.config;
  head.config["vocab_size"] = 74;
  head.write();
  CHECK(names(load(), {head.name(), a.name(), "vocabulary size", "74", "75"}));
  head.config = good;
  head.config["hidden_size"] = 48;
  head.write();
  CHECK(names(load(), {head.name(), a.name(), "hidden size", "48", "40"}));
  // The target's head is a matrix of its own: the embedding in its place would be another head.
  head.config = good;
  head.config["tie_word_embeddings"] = true;
  head.write();
  CHECK(names(load(), {head.name(), a.name(), "is its embedding"}));
}

TEST_CASE("a head that lacks a tensor does not get the target's of that name") {
  const on_disk a(1);
  engine::model of_a = a.load({.keep_features = true});
  const eagle_on_disk whole(of_a.head_fingerprint());
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    eagle_on_disk head(of_a.head_fingerprint());
    const std::string missing = head.tensors[i].name;
    CAPTURE(missing);
    head.tensors.erase(head.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    head.write();
    CHECK(names(complaint_of([&] { engine::eagle_model::load(head.path(), a.path(), of_a); }),
                {head.name(), missing, "is missing"}));
  }
  // The same of a head over canvases: its norms are not those of the model that it drafts for.
  const auto shipped = models / "tiny" / "canvas_head";
  engine::masked_model target = engine::masked_model::load(models / "tiny" / "masked");
  const test::temporary_directory where;
  std::filesystem::copy(shipped / "config.json", where.path() / "config.json");
  const engine::checkpoint stored = engine::checkpoint::open(shipped);
  std::vector<test::stored_tensor> kept;
  for (const char* name :
       {"model.fc.weight", "model.fc.weight_scale", "model.embedding_norm.weight"}) {
    const engine::tensor_view& t = stored.get(name);
    std::size_t size = engine::size_of(t.type);
    for (const std::int64_t n : t.shape) { size *= static_cast<std::size_t>(n); }
    kept.push_back({name, t.type, t.shape, {t.data, t.data + size}});
  }
  test::write_safetensors(where.path() / test::weights_file, test::header_of(kept).dump(), kept);
  CHECK(names(complaint_of([&] {
                engine::canvas_head::load(where.path(), models / "tiny" / "masked", target);
              }),
              {where.path().string(), "model.layers.0", "is missing"}));
}

TEST_CASE("what does not fit its target is named with it, and with both values") {
  using load_from = std::function<void(const std::filesystem::path&)>;
  engine::model target = engine::model::load(models / "target");
  engine::masked_model canvases = engine::masked_model::load(models / "tiny" / "masked");
  engine::masked_config sees_all =
      engine::read_masked_config(models / "tiny" / "masked" / "config.json");
  sees_all.pattern = engine::masked_config::attention::full;
  engine::masked_model full(sees_all, engine::checkpoint::open(models / "tiny" / "masked"));
  const auto by_canvases = [](engine::masked_model& m) {
    return load_from([&m](const auto& folder) {
      engine::canvas_head::load(folder, models / "tiny" / "masked", m);
    });
  };
  const load_from exits = [&](const auto& folder) { engine::early_exit::load(folder, target); };
  const load_from streams = [&](const auto& folder) {
    engine::speculative_streams::load(folder, target);
  };
  struct misfit {
    const char* folder;
    const char* of;
    load_from load;
    json change;
    std::vector<std::string> said;
  };
  const std::string layers = std::to_string(target.shape().layers);
  for (const misfit& m : std::initializer_list<misfit>{
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(canvases),
            {{"num_key_value_heads", 1}, {"num_attention_heads", 1}},
            {"key-value heads", "1", "2"}},
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(canvases),
            {{"head_dim", 6}},
            {"size of an attention head", "6"}},
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(canvases),
            {{"rope_theta", 77.5}},
            {"rotary embedding", "theta 77.5", "theta 10000"}},
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(canvases),
            {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}},
            {"rotary embedding", "linear by 4.0"}},
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(canvases),
            {{"target_layer", 99}},
            {"reads layer 99"}},
           {"tiny/canvas_head",
            "tiny/masked",
            by_canvases(full),
            json::object(),
            {"keys and values", "attention is full"}},
           {"exit", "target", exits, {{"exit_layer", 99}}, {"exit after layer 99", layers}},
           {"streams", "target", streams, {{"stream_layers", 99}}, {"last 99 layers", layers}}}) {
    const test::temporary_directory where;
    std::filesystem::copy(models / m.folder, where.path(),
                          std::filesystem::copy_options::recursive);
    std::ifstream in(models / m.folder / "config.json");
    json config = json::parse(in);
    config.update(m.change);
    test::write_text(where.path() / "config.json", config.dump());
    std::vector<std::string> said = m.said;
    said.push_back(where.path().string());
    said.push_back((models / m.of).string());
    const std::string complaint = complaint_of([&] { m.load(where.path()); });
    CAPTURE(complaint);
    for (const std::string& fragment : said) {
      CAPTURE(fragment);
      CHECK(complaint.find(fragment) != std::string::npos);
    }
  }
}

TEST_CASE("no shipped head drafts for a foreign target of the same sizes") {
  engine::model own = engine::model::load(models / "target", {.keep_features = true});
  engine::model foreign = foreign_target();
  REQUIRE(foreign.vocab_size() == own.vocab_size());
  const auto loads = [](engine::model& target) {
    return std::vector<std::pair<const char*, std::function<void()>>>{
        {"eagle", [&] { engine::eagle_model::load(models / "eagle", models / "target", target); }},
        {"medusa", [&] { engine::medusa_heads::load(models / "medusa", target); }},
        {"exit", [&] { engine::early_exit::load(models / "exit", target); }},
        {"streams", [&] { engine::speculative_streams::load(models / "streams", target); }}};
  };
  for (const auto& load : loads(own)) {
    CAPTURE(load.first);
    CHECK(complaint_of(load.second).empty());
  }
  for (const auto& load : loads(foreign)) {
    const char* const name = load.first;
    CAPTURE(name);
    CHECK(names(complaint_of(load.second),
                {(models / name / "config.json").string(), target_key, foreign.origin(),
                 hunch::fingerprint_text(own.head_fingerprint()),
                 hunch::fingerprint_text(foreign.head_fingerprint())}));
  }

  const engine::masked_config shape =
      engine::read_masked_config(models / "tiny" / "masked" / "config.json");
  engine::masked_model canvases(shape, test::random_checkpoint(shape.model, engine::dtype::i8, 9));
  const auto load = [&](engine::masked_model& target) {
    return complaint_of([&] {
      engine::canvas_head::load(models / "tiny" / "canvas_head", models / "tiny" / "masked",
                                target);
    });
  };
  CHECK(names(load(canvases), {"canvas_head", target_key, "memory"}));
  engine::masked_model right = engine::masked_model::load(models / "tiny" / "masked");
  CHECK(load(right).empty());
}

TEST_CASE("shipped layouts and routers are for the shipped target, in any copy of it") {
  for (const engine::arithmetic kind : {engine::preferred_bf16(), engine::arithmetic::int4}) {
    engine::model own = engine::model::load(models / "target", {.kind = kind});
    CHECK(own.made_for().vocabulary == engine::tokenizer(models / "target").fingerprint());
    for (const char* folder : {".", "left_out"}) {
      const auto where = models / folder;
      const auto layout = hunch::load_layout(where / "layout.safetensors", own.made_for());
      CHECK_NOTHROW(
          hunch::router::weights::load(where / "router.safetensors", layout, own.made_for()));
      CHECK_NOTHROW(hunch::load_layout(where / "frequency.safetensors", own.made_for()));
    }
  }
  // Another head of the vocabulary has the ranking, and neither clusters nor their router.
  engine::model draft = engine::model::load(models / "draft");
  const auto ranking = models / "frequency.safetensors";
  const auto clusters = models / "layout.safetensors";
  CHECK_NOTHROW(hunch::load_layout(ranking, draft.made_for()));
  CHECK(names(complaint_of([&] { hunch::load_layout(clusters, draft.made_for()); }),
              {clusters.string(), (models / "draft").string(), "another head"}));
  // A model of as many tokens of another vocabulary has none of them.
  hunch::made_for foreign = draft.made_for();
  foreign.vocabulary ^= 1;
  foreign.head ^= 1;
  CHECK(names(complaint_of([&] { hunch::load_layout(ranking, foreign); }),
              {ranking.string(), "another vocabulary"}));
  // A router beside the clusters of another layout of the same head.
  const auto target = engine::model::load(models / "target").made_for();
  const auto others = models / "left_out" / "layout.safetensors";
  CHECK(names(complaint_of([&] {
                hunch::router::weights::load(models / "router.safetensors",
                                             hunch::load_layout(others, target), target,
                                             others.string());
              }),
              {(models / "router.safetensors").string(), others.string(), "another layout"}));
}

TEST_CASE("tokenizers are compared with the models that read their tokens") {
  const test::temporary_directory a, b;
  train_tokenizer(a.path(), "the quick brown fox");
  train_tokenizer(b.path(), "jackdaws love my big sphinx");
  const engine::tokenizer of_a(a.path()), of_b(b.path());
  REQUIRE(of_a.vocab_size() == of_b.vocab_size());
  CHECK(of_a.fingerprint() != of_b.fingerprint());
  CHECK(engine::tokenizer(a.path()).fingerprint() == of_a.fingerprint());

  engine::config shape = test::tiny_config();
  shape.vocab_size = of_a.vocab_size();
  const auto check = [&](const engine::tokenizer& text, const std::filesystem::path& from) {
    return complaint_of([&] { engine::check_tokenizer(text, from, "models/m", shape); });
  };
  CHECK(check(of_a, a.path()).empty());
  CHECK(check(of_b, b.path()).empty());  // what says nothing is what lies beside it
  shape.vocabulary = of_a.fingerprint();
  CHECK(check(of_a, a.path()).empty());
  CHECK(names(check(of_b, b.path()),
              {"models/m", b.path().string(), hunch::fingerprint_text(of_a.fingerprint()),
               hunch::fingerprint_text(of_b.fingerprint())}));
  shape.vocab_size = 289;
  CHECK(names(check(of_a, a.path()), {"models/m", a.path().string(), "290", "289"}));
}

TEST_CASE("what a draft model of another vocabulary shares with its target") {
  const test::temporary_directory a, b, nothing;
  train_tokenizer(a.path(), "the quick brown fox");
  train_tokenizer(b.path(), "jackdaws love my big sphinx");
  const engine::tokenizer of_target(a.path()), of_other(b.path());
  engine::config target = test::tiny_config();
  target.vocab_size = 300;  // padded
  engine::config draft = target;
  const auto shared = [&](const std::filesystem::path& where) {
    return engine::shared_with_draft(where, draft, of_target, target, "models/target");
  };
  CHECK_FALSE(shared(a.path()).has_value());

  // One tokenizer, and embeddings of different sizes: tokens keep their numbers.
  draft.vocab_size = 290;
  const auto same = shared(a.path());
  REQUIRE(same.has_value());
  CHECK(same->size() == of_target.vocab_size());
  for (hunch::token t = 0; t < same->size(); ++t) {
    CHECK(same->target.row_token()[t] == t);
    CHECK(same->draft.row_token()[t] == t);
  }
  CHECK(same->reads.size() == 300);
  draft.vocabulary = of_target.fingerprint();
  CHECK(shared(nothing.path())->size() == of_target.vocab_size());
  draft.vocabulary = 0;
  CHECK(names(complaint_of([&] { shared(nothing.path()); }), {nothing.path().string()}));

  // Two tokenizers: what both spell, and a token stands for the last that spell it.
  const auto some = shared(b.path());
  REQUIRE(some.has_value());
  CHECK(some->size() < of_target.vocab_size());
  CHECK(some->size() > 256);  // all bytes
  for (std::int32_t r = 0; r < some->size(); ++r) {
    const hunch::token of_a = some->target.row_token()[r];
    const hunch::token of_b = some->draft.row_token()[r];
    CHECK(of_target.bytes(of_a) == of_other.bytes(of_b));
    CHECK(some->reads[static_cast<std::size_t>(of_a)] == of_b);
  }
  int spelled = 0;
  for (hunch::token t = 0; t < of_target.vocab_size(); ++t) {
    const std::string& text = of_target.bytes(t);
    if (some->target.token_row()[t] >= 0 || text.empty()) { continue; }
    const std::string& read = of_other.bytes(some->reads[static_cast<std::size_t>(t)]);
    CHECK(text.ends_with(read));
    ++spelled;
  }
  CHECK(spelled > 0);
}

TEST_CASE("a draft model reads the vocabulary of its target") {
  const test::temporary_directory a, b, nothing;
  train_tokenizer(a.path(), "the quick brown fox");
  train_tokenizer(b.path(), "jackdaws love my big sphinx");
  const std::uint64_t of_target = engine::tokenizer(a.path()).fingerprint();
  engine::config shape = test::tiny_config();
  shape.vocab_size = 290;
  const auto check = [&](const std::filesystem::path& draft) {
    return complaint_of(
        [&] { engine::check_draft_vocabulary(draft, shape, of_target, "models/target"); });
  };
  CHECK(check(a.path()).empty());
  CHECK(names(check(b.path()),
              {b.path().string(), "models/target", hunch::fingerprint_text(of_target)}));
  // What says nothing is refused, with what would say it.
  CHECK(
      names(check(nothing.path()), {nothing.path().string(), "models/target", "tokenizer.model",
                                    "vocabulary_fingerprint", hunch::fingerprint_text(of_target)}));
  shape.vocabulary = of_target;
  CHECK(check(nothing.path()).empty());
  CHECK(names(check(b.path()), {b.path().string()}));  // and what contradicts itself
  shape.vocabulary ^= 2;
  CHECK(names(check(nothing.path()), {nothing.path().string(), "models/target"}));
}

}  // namespace foreign_test

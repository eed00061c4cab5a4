// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/device/eagle.hpp>
#include <engine/eagle_files.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/tools/fingerprints.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "checkpoint_files.hpp"
#include "golden_file.hpp"
#include "temporary_directory.hpp"
#include "tiny_model.hpp"

/// Draft heads in the files that others publish theirs in, against what their definitions say; the
/// layout of tiny/heads/golden.safetensors is described in examples/models/README.md.

namespace published_heads_test {
namespace {

using engine::arithmetic;
using nlohmann::json;
namespace fs = std::filesystem;

const fs::path folder = fs::path(HUNCH_TEST_MODELS) / "tiny" / "heads";
const std::vector<std::string> eagles{"eagle",       "eagle3",       "eagle3_speculators",
                                      "eagle3_norm", "eagle3_norms", "mtp"};

using row = std::vector<float>;

std::vector<row> rows_of(const std::vector<float>& flat, std::size_t width) {
  std::vector<row> out;
  for (auto at = flat.begin(); at != flat.end(); at += static_cast<std::ptrdiff_t>(width)) {
    out.emplace_back(at, at + static_cast<std::ptrdiff_t>(width));
  }
  return out;
}

std::vector<hunch::token> ids() {
  return test::golden_file(folder / "golden.safetensors").values<std::int32_t>("ids");
}

std::vector<row> expected(const std::string& name) {
  const test::golden_file golden(folder / "golden.safetensors");
  const std::vector<float> flat = golden.values<float>(name + ".logits");
  return rows_of(flat, golden.shape(name + ".logits").back());
}

double largest_difference(const std::vector<row>& got, const std::vector<row>& right) {
  REQUIRE(got.size() == right.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].size() == right[i].size());
    for (std::size_t t = 0; t < got[i].size(); ++t) {
      const double d = std::fabs(static_cast<double>(got[i][t]) - static_cast<double>(right[i][t]));
      worst = std::isnan(d) ? 1e9 : std::max(worst, d);
    }
  }
  return worst;
}

/// Root mean square, of that of what is right.
double relative_error(const std::vector<row>& got, const std::vector<row>& right) {
  double error = 0.0, size = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t t = 0; t < got[i].size(); ++t) {
      const double d = static_cast<double>(got[i][t]) - static_cast<double>(right[i][t]);
      error += d * d;
      size += static_cast<double>(right[i][t]) * static_cast<double>(right[i][t]);
    }
  }
  return std::sqrt(error / size);
}

engine::model_options options_for(const std::string& name, arithmetic kind, int threads = 1) {
  const engine::config target = engine::read_config(folder / "target" / "config.json");
  return {.kind = kind,
          .threads = threads,
          .max_batch = 2,
          .keep_features = true,
          .feature_layers =
              engine::eagle_files::open(folder / name, folder / "target", target).feature_layers};
}

/// The logits of a head, in the order of its rows.
template <class Head, class States>
row logits_of(Head& head, const States& states, std::int32_t at, const hunch::vocab_layout& order) {
  const hunch::row_range all{0, order.head_rows()};
  const hunch::shortlist list = order.list(&all, 1);
  row out(static_cast<std::size_t>(order.head_rows()));
  hunch::row_view<float> view{out.data(), order.head_rows()};
  head.head(states, {1, &at, &list, &view});
  return out;
}

/// A target and a head of it.
struct pair {
  engine::model target;
  engine::eagle_model head;
  hunch::vocab_layout order;

  explicit pair(const std::string& name, arithmetic kind = arithmetic::f32, int threads = 1)
      : target{engine::model::load(folder / "target", options_for(name, kind, threads))},
        head{engine::eagle_model::load(folder / name, folder / "target", target,
                                       options_for(name, kind, threads))},
        order{head.head_tokens() != nullptr ? *head.head_tokens()
                                            : hunch::vocab_layout::identity(head.vocab_size())} {
    head.set_head_layout(order);
  }

  /// The logits of a text: its first `known` tokens in pieces of `piece`, which the target has
  /// read, and the others one after the other, as in a draft. The row of the first token is not
  /// asked for.
  std::vector<row> along(const std::vector<hunch::token>& text, int known, int piece) {
    test::read(target, 1, {text.begin(), text.begin() + known}, piece);
    std::vector<row> out;
    for (int begin = 0; begin < known; begin += piece) {
      const int end = std::min(known, begin + piece);
      test::row_batch rows;
      rows.add_chain(1, begin, {text.begin() + begin, text.begin() + end});
      const auto states = head.forward(rows.view());
      std::vector<std::int32_t> ids;
      for (int i = begin; i < end; ++i) {
        ids.push_back(i - begin);
        if (i > 0) { out.push_back(logits_of(head, states, i - begin, order)); }
      }
      test::keep(head, 1, ids);
    }
    for (int i = known; i < static_cast<int>(text.size()); ++i) {
      test::row_batch rows;
      rows.add(1, i - known, i == known ? hunch::end_of_cache : i - known - 1, i,
               text[static_cast<std::size_t>(i)]);
      out.push_back(logits_of(head, head.forward(rows.view()), 0, order));
    }
    return out;
  }
};

}  // namespace

TEST_CASE("published EAGLE heads compute what they are defined as") {
  const std::vector<hunch::token> text = ids();
  for (const std::string& name : eagles) {
    const std::vector<row> right = expected(name);
    const int known = static_cast<int>(right.size()) + 1 - 3;
    for (const int piece : {known, 5}) {
      for (const int threads : {1, 3}) {
        CAPTURE(name);
        CAPTURE(piece);
        CAPTURE(threads);
        pair with(name, arithmetic::f32, threads);
        CHECK(largest_difference(with.along(text, known, piece), right) < 1e-4);
      }
    }
    // Of another text it says something else: the comparison can fail.
    std::vector<hunch::token> other = text;
    other[0] = (other[0] + 1) % 90;
    CHECK(largest_difference(pair(name).along(other, known, known), right) > 1e-2);
  }
}

TEST_CASE("published EAGLE heads in every precision") {
  const std::vector<hunch::token> text = ids();
  for (const std::string& name : eagles) {
    const std::vector<row> right = expected(name);
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(kind));
      pair with(name, kind);
      // Random layers magnify what is rounded; of another head the error is more than one.
      const double bound = kind == arithmetic::int4 ? 0.95 : kind == arithmetic::int8 ? 0.12 : 0.05;
      CHECK(relative_error(with.along(text, static_cast<int>(right.size()) - 2, 9), right) < bound);
    }
  }
}

TEST_CASE("an EAGLE-3 head drafts the tokens of its own vocabulary") {
  pair with("eagle3");
  REQUIRE(with.head.head_tokens() != nullptr);
  CHECK(with.order.head_rows() == 40);
  CHECK(with.head.head_order() == with.order.order());
  CHECK(with.head.vocab_size() == 96);
  // In another order the same logits.
  std::vector<hunch::token> turned(with.order.row_token(), with.order.row_token() + 40);
  std::reverse(turned.begin(), turned.end());
  test::row_batch rows;
  rows.add(0, 0, hunch::end_of_cache, 0, 7);
  const row straight = logits_of(with.head, with.head.forward(rows.view()), 0, with.order);
  const auto reversed = hunch::vocab_layout::permuted(turned, 96);
  with.head.set_head_layout(reversed);
  row back = logits_of(with.head, with.head.forward(rows.view()), 0, reversed);
  std::reverse(back.begin(), back.end());
  CHECK(back == straight);
  CHECK_THROWS_AS(with.head.set_head_layout(hunch::vocab_layout::identity(96)),
                  std::invalid_argument);
  CHECK_THROWS_AS(with.head.inputs(rows.view()), std::invalid_argument);
}

TEST_CASE("published Medusa heads compute what they are defined as") {
  engine::model target = engine::model::load(folder / "target", {.kind = arithmetic::f32});
  engine::medusa_heads heads = engine::medusa_heads::load(folder / "medusa", target);
  const std::vector<row> right = expected("medusa");
  REQUIRE(heads.heads() == 4);
  const std::vector<hunch::token> text = ids();
  const std::size_t known = right.size() / 4;
  test::row_batch rows;
  rows.add_chain(0, 0, {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(known)});
  const auto states = target.forward(rows.view());
  const auto order = hunch::vocab_layout::identity(target.vocab_size());
  std::vector<row> got(right.size());
  for (std::size_t i = 0; i < known; ++i) {
    const float* const hidden = states.hidden(static_cast<std::int32_t>(i)).data;
    const hunch::token root = 0;
    const auto drafted = heads.forward({1, &hidden, &root});
    for (std::int32_t j = 0; j < 4; ++j) {
      got[static_cast<std::size_t>(j) * known + i] = logits_of(heads, drafted, j, order);
    }
  }
  CHECK(largest_difference(got, right) < 1e-4);
}

namespace {

/// A copy of a head, to be damaged.
struct copied_head {
  test::temporary_directory where;
  std::string name;

  explicit copied_head(const std::string& of) : name{of} {
    fs::copy(folder / of, where.path(), fs::copy_options::recursive);
  }
  json config() const {
    std::ifstream in(where.path() / "config.json");
    return json::parse(in);
  }
  void change(const json& more) const {
    json values = config();
    values.update(more);
    test::write_text(where.path() / "config.json", values.dump());
  }
  /// Adds a tensor without values.
  void add(const std::string& name) const {
    change_weights([&](json& header, std::string&) {
      header[name] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
    });
  }
  void remove(const std::string& name) const {
    change_weights([&](json& header, std::string&) { header.erase(name); });
  }
  void change_weights(const std::function<void(json&, std::string&)>& change) const {
    const fs::path file = where.path() / test::weights_file;
    std::ifstream in(file, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    in.close();
    std::size_t size = 0;
    for (std::size_t i = 8; i-- > 0;) { size = size << 8 | static_cast<unsigned char>(all[i]); }
    json header = json::parse(all.substr(8, size));
    std::string values = all.substr(8 + size);
    change(header, values);
    test::write_safetensors(file, header.dump(), {});
    std::ofstream(file, std::ios::binary | std::ios::app) << values;
  }
  std::string complaint(const engine::model_options& target_keeps) const {
    engine::model target = engine::model::load(folder / "target", target_keeps);
    try {
      if (name == "medusa") {
        engine::medusa_heads::load(where.path(), target);
      } else {
        engine::eagle_model::load(where.path(), folder / "target", target);
      }
    } catch (const std::exception& error) { return error.what(); }
    return {};
  }
};

}  // namespace

TEST_CASE("what does not fit a published head is named") {
  const engine::model_options last{.keep_features = true};
  engine::model_options three = last;
  three.feature_layers = {1, 2, 2};
  const copied_head eagle("eagle"), eagle3("eagle3"), medusa("medusa");
  CHECK(eagle.complaint(last).empty());
  CHECK(eagle3.complaint(three).empty());
  CHECK(medusa.complaint({}).empty());
  CHECK(test::names(eagle.complaint({}), {"keep_features"}));
  CHECK(test::names(eagle.complaint(three), {eagle.where.path().string(), "feature_layers"}));
  CHECK(
      test::names(eagle3.complaint(last), {eagle3.where.path().string(), "feature_layers", "96"}));

  // One format in the place of another.
  const auto beside = [](const copied_head& of, const char* other) {
    copied_head out(other);
    out.name = of.name;
    return out.complaint({.keep_features = true});
  };
  CHECK(test::names(beside(eagle, "medusa"), {"is no EAGLE head", "looks like Medusa heads"}));
  CHECK(test::names(beside(eagle, "target"), {"is no EAGLE head", "looks like a whole model"}));
  CHECK(test::names(beside(medusa, "eagle3"), {"no Medusa heads", "looks like an EAGLE-3 head"}));
  CHECK(test::names(beside(medusa, "eagle"), {"no Medusa heads", "looks like an EAGLE head"}));

  eagle.change({{"target_head_fingerprint", "0x0000000000000001"}});
  CHECK(test::names(eagle.complaint(last), {"target_head_fingerprint", "another target"}));
  eagle3.change({{"vocab_size", 95}});
  CHECK(test::names(eagle3.complaint(three), {"vocabulary size", "95", "96"}));
  eagle3.change({{"vocab_size", 96}, {"eagle_aux_hidden_state_layer_ids", {0, 1, 5}}});
  CHECK(test::names(eagle3.complaint(three),
                    {"config.json", "eagle_aux_hidden_state_layer_ids", "has 5", "4 layers"}));
  const copied_head speculators("eagle3_norm"), of_parts("eagle3_norms");
  speculators.change({{"fc_norm", true}});
  CHECK(test::names(speculators.complaint(three), {"config.json", "fc_norm", "norm_before_fc"}));
  speculators.change({{"fc_norm", false}, {"norm_before_fc", false}});
  CHECK(test::names(speculators.complaint(three), {"\"input_norm.weight\" is none that is read"}));
  of_parts.change({{"fc_norm", nullptr}});
  CHECK(test::names(of_parts.complaint(three), {"\"fc_norm.0.weight\" is none that is read"}));
  of_parts.change({{"fc_norm", true}, {"eagle_aux_hidden_state_layer_ids", {0, 1, 2, 3}}});
  CHECK(test::names(of_parts.complaint(three), {"config.json", "equal sizes"}));
}

TEST_CASE("tensors of a published head that nothing reads are named") {
  engine::model_options three{.keep_features = true};
  three.feature_layers = {1, 2, 2};
  const auto with = [&](const std::string& head, const std::string& more) {
    const copied_head copy(head);
    copy.add(more);
    return copy.complaint(head == "eagle3" ? three : engine::model_options{.keep_features = true});
  };
  for (const char* more : {"mask_hidden", "fc_norm.0.weight", "midlayer.self_attn.o_proj.bias",
                           "parallel_draft_heads.0.weight", "midlayer.self_attn.k_proj.bias",
                           "fc.weight_scale", "layers.1.mlp.up_proj.weight"}) {
    CHECK(test::names(
        with("eagle3", more),
        {test::weights_file, "tensor \"" + std::string(more) + "\" is none that is read",
         "looks like an EAGLE-3 head"}));
  }
  CHECK(test::names(with("eagle3", "layers.0.self_attn.q_proj.weight"),
                    {"stands for the same as", "midlayer.self_attn.q_proj.weight"}));
  CHECK(test::names(with("eagle3", "embed_tokens.weight_scale"), {"embed_tokens.weight_scale"}));
  CHECK(with("eagle3", "midlayer.self_attn.rotary_emb.inv_freq").empty());
  CHECK(test::names(with("eagle", "norm.weight_0"), {"\"norm.weight_0\""}));
  CHECK(test::names(with("mtp", "mtp_layers.1.input_proj.weight"),
                    {"\"mtp_layers.1.input_proj.weight\"", "multi-token prediction"}));
  CHECK(test::names(with("medusa", "4.1.weight"), {"\"4.1.weight\"", "looks like Medusa heads"}));
}

TEST_CASE("layers that an EAGLE-3 head reads") {
  const char* const key = "eagle_aux_hidden_state_layer_ids";
  const engine::config target = engine::read_config(folder / "target" / "config.json");
  const auto of = [&](const json& change) {
    const copied_head head("eagle3");
    head.change(change);
    return engine::eagle_files::open(head.where.path(), folder / "target", target).feature_layers;
  };
  const auto nested = [&](const json& ids) { return json{{"eagle_config", {{key, ids}}}}; };
  CHECK(of(json::object()) == std::vector<int>{1, 2, 2});
  CHECK(of({{"eagle_config", json::object()}}) == std::vector<int>{1, 2, 2});
  CHECK(of({{key, {4, 0, 2}}}) == std::vector<int>{0, 2, 4});
  // Of layers that end so: what the next ones begin with.
  CHECK(of(nested({3, 0, 1})) == std::vector<int>{1, 2, 4});
  json both = nested({3, 0, 1});
  both[key] = {1, 2, 3};
  CHECK(of(both) == std::vector<int>{1, 2, 3});
  for (const json& bad : {nested({0, 1, 4}), json{{key, {0, 1, 5}}}, nested({0, 1, -1})}) {
    CHECK_THROWS_WITH_AS(of(bad), doctest::Contains("and its target 4 layers"), std::runtime_error);
  }
}

TEST_CASE("the context of a published head, which a sliding window ends") {
  const engine::config target = engine::read_config(folder / "target" / "config.json");
  const auto context_with = [&](const std::string& name, const json& change) {
    const copied_head head(name);
    json values = head.config();
    (values.contains("transformer_layer_config") ? values["transformer_layer_config"] : values)
        .update(change);
    head.change(values);
    return engine::eagle_files::open(head.where.path(), folder / "target", target).shape.context;
  };
  const json sliding{{"sliding_window", 64}, {"layer_types", {"sliding_attention"}}};
  const json full{{"sliding_window", 64}, {"layer_types", {"full_attention"}}};
  for (const std::string& name : eagles) {
    CHECK(context_with(name, json::object()) == 128);
    CHECK(context_with(name, sliding) == 64);
    CHECK(context_with(name, full) == 128);
    CHECK(context_with(name, {{"sliding_window", 64}, {"use_sliding_window", false}}) == 128);
  }
  CHECK(context_with("mtp", {{"sliding_window", 64}}) == 128);  // a Qwen's
  // Of a Llama transformers knows what is not said.
  CHECK(context_with("eagle", {{"max_position_embeddings", nullptr}}) == 2048);
  CHECK_THROWS(context_with("mtp", {{"max_position_embeddings", nullptr}}));
}

TEST_CASE("an EAGLE-3 head with a midlayer has one layer") {
  engine::model_options three{.keep_features = true};
  three.feature_layers = {1, 2, 2};
  const copied_head midlayer("eagle3"), numbered("eagle3_speculators");
  midlayer.change({{"num_hidden_layers", 40}});
  CHECK(midlayer.complaint(three).empty());
  json values = numbered.config();
  values["transformer_layer_config"]["num_hidden_layers"] = 40;
  numbered.change(values);
  CHECK(test::names(numbered.complaint(three), {"config.json", "one layer"}));
}

TEST_CASE("Medusa heads without a matrix of their own read the target's") {
  const copied_head copy("medusa");
  for (const char* name : {"0.1.weight", "1.1.weight", "2.1.weight"}) { copy.remove(name); }
  CHECK(test::names(copy.complaint({}), {"\"3.1.weight\" is none that is read"}));
  copy.remove("3.1.weight");
  engine::model target = engine::model::load(folder / "target", {.kind = arithmetic::f32});
  engine::medusa_heads heads = engine::medusa_heads::load(copy.where.path(), target);
  const std::vector<float> state(static_cast<std::size_t>(target.shape().hidden), 0.5f);
  const float* const hidden = state.data();
  const hunch::token root = 0;
  const auto drafted = heads.forward({1, &hidden, &root});
  const auto order = hunch::vocab_layout::identity(target.vocab_size());
  heads.set_head_layout(order);
  CHECK(heads.head_order() == target.head_order());
  CHECK(logits_of(heads, drafted, 0, order) != logits_of(heads, drafted, 1, order));
}

TEST_CASE("a head with an embedding of its own reads the head of a tied target") {
  // The same target twice: its head is its embedding, or a copy of it.
  const copied_head tied("target"), untied("target");
  const auto bytes_of = [](const json& header, const std::string& name) {
    const json& at = header.at(name).at("data_offsets");
    return std::pair(at[0].get<std::size_t>(), at[1].get<std::size_t>() - at[0].get<std::size_t>());
  };
  tied.remove("lm_head.weight");
  tied.change({{"tie_word_embeddings", true}});
  untied.change_weights([&](json& header, std::string& values) {
    const auto [from, size] = bytes_of(header, "model.embed_tokens.weight");
    values.replace(bytes_of(header, "lm_head.weight").first, size, values, from, size);
  });
  for (const arithmetic kind : {arithmetic::f32, arithmetic::int8}) {
    const engine::model_options options{.kind = kind, .keep_features = true};
    std::vector<row> logits;
    for (const copied_head* of : {&tied, &untied}) {
      engine::model target = engine::model::load(of->where.path(), options);
      const copied_head head("eagle");
      head.change(
          {{"target_head_fingerprint", hunch::fingerprint_text(target.head_fingerprint())}});
      head.change_weights([&](json& header, std::string& values) {
        const auto [from, size] = bytes_of(header, "embed_tokens.weight");
        for (std::size_t i = 1; i < size; i += 4) { values[from + i] ^= '\x80'; }  // some signs
      });
      engine::eagle_model drafts =
          engine::eagle_model::load(head.where.path(), of->where.path(), target, options);
      const auto order = hunch::vocab_layout::identity(drafts.vocab_size());
      drafts.set_head_layout(order);
      test::row_batch rows;
      rows.add(0, 0, hunch::end_of_cache, 0, 7);
      logits.push_back(logits_of(drafts, drafts.forward(rows.view()), 0, order));
    }
    CHECK(logits[0] == logits[1]);
  }
}

TEST_CASE("EAGLE-3 heads that are more than is computed are refused by key") {
  engine::model_options of_three{.keep_features = true};
  for (const char* name : {"eagle3", "eagle3_speculators"}) {
    of_three.feature_layers = {1, 2, 2};
    for (const char* key : {"norm_before_fc", "fc_norm", "norm_output", "use_aux_hidden_state"}) {
      const bool value = key != std::string("use_aux_hidden_state");
      const copied_head head(name);
      if (name == std::string("eagle3") || !value) {
        head.change({{key, value}});
        CHECK(test::names(head.complaint(of_three), {"config.json: \"" + std::string(key)}));
      }
      head.change({{key, nullptr}, {"eagle_config", {{key, value}}}});
      CHECK(test::names(head.complaint(of_three),
                        {"config.json: \"eagle_config\": \"" + std::string(key)}));
      head.change({{"eagle_config", {{key, !value}}}});
      CHECK(head.complaint(of_three).empty());
    }
  }
}

TEST_CASE("a head of no known format is told by what it has") {
  copied_head head("medusa");
  head.name = "eagle";
  head.change_weights([](json& header, std::string&) {
    header = {{"some.weight", header.at("0.0.linear.weight")}};
  });
  head.change({{"architectures", {"SomeSpeculator"}}});
  CHECK(test::names(head.complaint({.keep_features = true}),
                    {head.where.path().string(), "is no EAGLE head", "no draft head and no model",
                     "\"some.weight\"", "\"architectures\": [\"SomeSpeculator\"]"}));
  head.change({{"speculators_model_type", "independent"}});
  CHECK(test::names(head.complaint({.keep_features = true}),
                    {"\"speculators_model_type\": \"independent\""}));
}

TEST_CASE("what speculators calls a head is what it looks like") {
  engine::model_options three{.keep_features = true};
  three.feature_layers = {0, 2, 4};
  const copied_head eagle3("eagle3_speculators");
  CHECK(eagle3.complaint(three).empty());
  for (const char* type : {"peagle", "dflash", "eagle", "independent"}) {
    eagle3.change({{"speculators_model_type", type}});
    CHECK(test::names(eagle3.complaint(three), {"config.json", "\"speculators_model_type\" is",
                                                type, "supported are eagle3 and mtp"}));
  }
  json layer = eagle3.config();
  layer["speculators_model_type"] = "eagle3";
  layer["transformer_layer_config"]["model_type"] = "qwen3_next";
  eagle3.change(layer);
  CHECK(test::names(
      eagle3.complaint(three),
      {"\"transformer_layer_config\": \"model_type\" is qwen3_next", "llama, qwen2 and qwen3"}));
  layer["transformer_layer_config"].erase("model_type");
  eagle3.change(layer);
  CHECK(eagle3.complaint(three).empty());
  eagle3.change({{"norm_before_residual", nullptr}});
  CHECK(test::names(eagle3.complaint(three), {"\"norm_before_residual\" is missing"}));
  eagle3.change({{"norm_before_residual", true}, {"speculators_model_type", "mtp"}});
  CHECK(test::names(eagle3.complaint(three),
                    {"is mtp, and by its tensors it looks like an EAGLE-3"}));
}

TEST_CASE("a device refuses the layers of a published head") {
  using target_on_device = engine::device_model<hunch::executor::host>;
  engine::device_options sizes;
  sizes.keep_features = true;
  target_on_device target = target_on_device::load(folder / "target", sizes);
  try {
    engine::device_eagle<hunch::executor::host>::load(folder / "eagle", folder / "target", target,
                                                      sizes);
    CHECK(false);
  } catch (const std::invalid_argument& error) {
    CHECK(test::names(error.what(), {"use the host", (folder / "eagle").string()}));
  }
}

}  // namespace published_heads_test

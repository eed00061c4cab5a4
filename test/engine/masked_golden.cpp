// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>

#include "golden_file.hpp"
#include "tiny_masked.hpp"

/// Small masked models against what the `transformers` library computes for them; the layout of
/// tiny/golden.safetensors is described in examples/models/README.md.

namespace masked_golden_test {
namespace {

/// The canvases of a golden file, asked for all their masks.
std::vector<test::canvas> canvases(const test::golden_file& golden, const std::string& name,
                                   hunch::token mask) {
  const auto shape = golden.shape(name + ".tokens");
  const auto tokens = golden.values<std::int32_t>(name + ".tokens");
  const auto known = golden.values<std::int32_t>(name + ".known");
  const std::int32_t block = golden.values<std::int32_t>("block_length").at(0);
  std::vector<test::canvas> out;
  for (std::size_t i = 0; i < shape.at(0); ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i * shape.at(1));
    test::canvas one{
        {begin, begin + static_cast<std::ptrdiff_t>(shape.at(1))}, known[i], known[i] + block, {}};
    for (std::size_t at = 0; at < one.tokens.size(); ++at) {
      if (one.tokens[at] == mask) { one.wanted.push_back(static_cast<std::int32_t>(at)); }
    }
    out.push_back(one);
  }
  return out;
}

/// [rows][vocabulary] of a golden file.
std::vector<test::vec> rows(const test::golden_file& golden, const std::string& name) {
  const auto flat = golden.values<float>(name);
  const std::size_t vocab = golden.shape(name).at(1);
  std::vector<test::vec> out;
  for (std::size_t at = 0; at < flat.size(); at += vocab) {
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(at);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(vocab));
  }
  return out;
}

/// Of each row so many logits, in equal distances, the first one among them.
std::vector<std::vector<float>> some(const std::vector<std::vector<float>>& rows,
                                     std::size_t count) {
  std::vector<std::vector<float>> out;
  for (const std::vector<float>& row : rows) {
    out.emplace_back();
    for (std::size_t t = 0; t < row.size(); t += row.size() / count) {
      out.back().push_back(row[t]);
    }
  }
  return out;
}

double tolerance(engine::arithmetic kind) {
  return kind == engine::arithmetic::bf16_dot ? 3e-2 : 1e-5;
}

}  // namespace

TEST_CASE("tiny masked models compute what transformers computes") {
  const auto folder = std::filesystem::path(HUNCH_TEST_MODELS) / "tiny";
  const test::golden_file golden(folder / "golden.safetensors");
  for (const std::string name : {"llada", "dream", "masked"}) {
    CAPTURE(name);
    const std::vector<test::vec> expected = rows(golden, name + ".logits");
    for (const engine::arithmetic kind : {engine::arithmetic::f32, engine::preferred_bf16()}) {
      engine::masked_model m =
          engine::masked_model::load(folder / name, {.kind = kind, .max_batch = 3});
      test::canvas_batch batch;
      int slot = 0;
      for (const test::canvas& c : canvases(golden, name, m.mask_token())) { batch.add(slot++, c); }
      CHECK(test::difference(some(test::logits(m, batch), expected.at(0).size()), expected) <
            tolerance(kind));
    }
  }
}

TEST_CASE("a tiny head of a masked model computes what the recipe's does") {
  const auto folder = std::filesystem::path(HUNCH_TEST_MODELS) / "tiny";
  const test::golden_file golden(folder / "golden.safetensors");
  const std::vector<test::vec> expected = rows(golden, "canvas_head.logits");
  const std::int32_t unmasked = golden.values<std::int32_t>("written").at(0);
  for (const engine::arithmetic kind : {engine::arithmetic::f32, engine::preferred_bf16()}) {
    const engine::model_options options{.kind = kind, .max_batch = 3};
    engine::masked_model m = engine::masked_model::load(folder / "masked", options);
    engine::canvas_head head =
        engine::canvas_head::load(folder / "canvas_head", folder / "masked", m, options);
    test::canvas_batch then, now;
    int slot = 0;
    for (const test::canvas& c : canvases(golden, "canvas_head", m.mask_token())) {
      // The text after which drafts have made the canvas, filling its first block or not.
      test::canvas text = c.asking({c.known});
      text.tokens[static_cast<std::size_t>(c.known)] = m.mask_token();
      then.add(slot, text).add(slot, c);
      now.add(slot++, test::unmasked(c, unmasked));
    }
    const std::vector<std::int32_t> kept{1, 3, 5};
    head.observe(hunch::diffusion::decided_canvases{then.view(), 3, kept.data()},
                 m.evaluate(then.view()));
    const auto found = head.evaluate(now.view());
    std::vector<std::vector<float>> logits;
    for (std::int32_t i = 0; i < found.size(); ++i) {
      logits.push_back(test::copy(found.logits(i)));
    }
    CHECK(test::difference(logits, expected) < tolerance(kind));
  }
}

}  // namespace masked_golden_test

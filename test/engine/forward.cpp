// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <engine/model.hpp>

#include "reference.hpp"
#include "tiny_model.hpp"

/// The engine against the textbook in double precision.

namespace {

using engine::arithmetic;

/// The largest difference over some rows of one pass, relative to the spread of the logits.
double difference(const engine::config& c, const engine::checkpoint& weights, arithmetic kind,
                  int length = 21) {
  engine::model m(c, weights, {.kind = kind});
  const test::reference_model reference(c, weights);
  const std::vector<hunch::token> tokens = test::some_tokens(length, c.vocab_size);
  test::row_batch rows;
  rows.add_chain(0, 0, tokens);
  const auto result = m.evaluate(rows.view());
  double worst = 0;
  for (int i = 0; i < static_cast<int>(tokens.size()); i += 4) {
    const std::vector<int> prefix(tokens.begin(), tokens.begin() + i + 1);
    std::vector<int> positions(prefix.size());
    std::iota(positions.begin(), positions.end(), 0);
    const test::vec expected = reference.logits(prefix, positions);
    const auto got = result.logits(i);
    REQUIRE(got.size == c.vocab_size);
    const double spread = *std::max_element(expected.begin(), expected.end()) -
                          *std::min_element(expected.begin(), expected.end());
    for (int v = 0; v < c.vocab_size; ++v) {
      const double d =
          std::fabs(static_cast<double>(got[v]) - expected[static_cast<std::size_t>(v)]);
      worst = std::isnan(d) ? 1e9 : std::max(worst, d / spread);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("f32 logits are those of the textbook") {
  for (const bool tied : {false, true}) {
    for (const int kv_heads : {1, 2, 3, 6}) {
      CAPTURE(tied);
      CAPTURE(kv_heads);
      engine::config c = test::tiny_config();
      c.tied_head = tied;
      c.kv_heads = kv_heads;
      CHECK(difference(c, test::random_checkpoint(c), arithmetic::f32) < 1e-4);
    }
  }
}

TEST_CASE("every dtype of a checkpoint is read exactly in f32") {
  using engine::dtype;
  for (const dtype type : {dtype::f32, dtype::f16, dtype::bf16, dtype::i8}) {
    CAPTURE(engine::to_string(type));
    const engine::config c = test::tiny_config();
    CHECK(difference(c, test::random_checkpoint(c, type), arithmetic::f32) < 1e-4);
  }
}

TEST_CASE("rope scalings are those of the textbook") {
  engine::config c = test::tiny_config();
  c.rope.kind = engine::rope_config::scaling::linear;
  c.rope.factor = 4;
  CHECK(difference(c, test::random_checkpoint(c), arithmetic::f32) < 1e-4);
  c.rope.kind = engine::rope_config::scaling::llama3;
  c.rope.factor = 8;
  c.rope.original_context = 64;
  CHECK(difference(c, test::random_checkpoint(c), arithmetic::f32) < 1e-4);
}

TEST_CASE("head sizes around the register width") {
  for (const int head_dim : {2, 16, 18, 32, 64, 80}) {
    for (const bool qk_norm : {false, true}) {
      CAPTURE(head_dim);
      CAPTURE(qk_norm);
      engine::config c = test::tiny_config();
      c.head_dim = head_dim;
      c.qk_norm = qk_norm;
      CHECK(difference(c, test::random_checkpoint(c), arithmetic::f32) < 1e-4);
    }
  }
}

TEST_CASE("biases of queries, keys and values are those of the textbook") {
  engine::config c = test::tiny_config();
  c.qkv_bias = true;
  CHECK(difference(c, test::random_checkpoint(c), arithmetic::f32) < 1e-4);
  c.qk_norm = true;
  CHECK_THROWS_AS(c.check(), std::invalid_argument);
}

TEST_CASE("a vocabulary as large as Gemma 3's") {
  engine::config c = test::tiny_config();
  c.vocab_size = 262208;
  c.hidden = 16;
  c.layers = 1;
  for (const bool tied : {false, true}) {
    c.tied_head = tied;
    const engine::checkpoint weights = test::random_checkpoint(c, engine::dtype::bf16);
    CHECK(difference(c, weights, arithmetic::f32, 1) < 1e-4);
    CHECK(difference(c, weights, arithmetic::int8, 1) < 5e-2);
  }
}

TEST_CASE("widened bf16 weights with f32 activations are exact for bf16 and I8 checkpoints") {
  using engine::dtype;
  for (const dtype type : {dtype::bf16, dtype::i8}) {
    CAPTURE(engine::to_string(type));
    const engine::config c = test::small_config();
    CHECK(difference(c, test::random_checkpoint(c, type), arithmetic::bf16_fma) < 1e-4);
  }
  const engine::config c = test::small_config();
  CHECK(difference(c, test::random_checkpoint(c), arithmetic::bf16_fma) < 3e-2);
}

TEST_CASE("bf16 activations stay near") {
  if (!engine::has_bf16_dot()) {
    MESSAGE("not run: this build has no bf16 dot product");
    return;
  }
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
    CHECK(difference(c, weights, arithmetic::bf16_dot) < 3e-2);
  }
}

TEST_CASE("positions are the caller's") {
  const engine::config c = test::tiny_config();
  const auto weights = test::random_checkpoint(c);
  engine::model m(c, weights, {.kind = arithmetic::f32});
  test::row_batch rows;
  rows.add(0, 0, hunch::end_of_cache, 5, 3).add(0, 1, 0, 17, 4).add(0, 2, 0, 90, 9);
  const auto result = m.evaluate(rows.view());
  const test::vec expected = test::reference_model(c, weights).logits({3, 9}, {5, 90});
  for (int v = 0; v < c.vocab_size; ++v) {
    CHECK(static_cast<double>(result.logits(2)[v]) ==
          doctest::Approx(expected[static_cast<std::size_t>(v)]).epsilon(1e-4));
  }
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/masked_model.hpp>
#include <engine/model.hpp>

#include "counted_new.hpp"
#include "tiny_masked.hpp"
#include "tiny_model.hpp"

/// Masked models: the textbook, invariance, the cached prefix, and calls that are refused.

namespace masked_test {
namespace {

using engine::arithmetic;
using test::canvas;
using test::canvas_batch;
using test::logits;
using test::pattern;

using rows = std::vector<std::vector<float>>;

template <class F>
void for_each_kind_of_model(F f) {
  for (const pattern p : {pattern::full, pattern::causal_prefix}) {
    for (const bool shifted : {false, true}) {
      CAPTURE(static_cast<int>(p));
      CAPTURE(shifted);
      f(p, shifted);
    }
  }
}

struct fixture {
  engine::masked_config shape;
  engine::checkpoint weights;

  explicit fixture(pattern p = pattern::causal_prefix, bool shifted = true,
                   const engine::config& c = test::tiny_config())
      : shape{test::masked(c, p, shifted)},
        weights{test::random_checkpoint(c, engine::dtype::i8)} {}

  engine::masked_model make(arithmetic kind = arithmetic::f32, int threads = 1) const {
    return {shape, weights, {.kind = kind, .threads = threads, .max_batch = 3}};
  }

  canvas some(int known, int blocks, unsigned seed = 7) const {
    return test::some_canvas(shape, known, blocks, seed);
  }

  /// What a model says that has read nothing else.
  rows alone(const canvas& c, arithmetic kind = arithmetic::f32) const {
    engine::masked_model m = make(kind);
    return logits(m, 0, c);
  }

  /// The canvas, and those with one more token each.
  std::vector<canvas> chain(const canvas& first, int drafts) const {
    std::vector<canvas> out{first};
    for (int i = 0; i < drafts; ++i) { out.push_back(test::unmasked(out.back(), 3 + i)); }
    return out;
  }
};

rows joined(std::vector<rows> parts) {
  rows out;
  for (rows& part : parts) { std::move(part.begin(), part.end(), std::back_inserter(out)); }
  return out;
}

}  // namespace

TEST_CASE("f32 logits of masked positions are those of the textbook") {
  for_each_kind_of_model([](pattern p, bool shifted) {
    for (const bool bias : {false, true}) {
      CAPTURE(bias);
      engine::config c = test::tiny_config();
      c.qkv_bias = bias;
      c.tied_head = bias;
      const engine::masked_config shape = test::masked(c, p, shifted);
      const auto weights = test::random_checkpoint(c);
      engine::masked_model m(shape, weights, {.kind = arithmetic::f32});
      for (const int known : {1, 5, 12}) {
        CAPTURE(known);
        const canvas asked = test::some_canvas(shape, known, 3);
        CHECK(test::difference(logits(m, 0, asked), test::textbook(shape, weights, asked)) < 1e-4);
      }
    }
  });
}

TEST_CASE("other arithmetics of masked models stay near the textbook") {
  for_each_kind_of_model([](pattern p, bool shifted) {
    engine::config c = test::small_config();
    c.qkv_bias = shifted;
    const fixture with(p, shifted, c);
    const canvas asked = with.some(9, 2);
    const auto expected = test::textbook(with.shape, with.weights, asked);
    CHECK(test::difference(with.alone(asked, arithmetic::bf16_fma), expected) < 1e-4);
    CHECK(test::difference(with.alone(asked, arithmetic::int4), expected) < 0.3);
    if (engine::has_bf16_dot()) {
      CHECK(test::difference(with.alone(asked, arithmetic::bf16_dot), expected) < 3e-2);
    }
  });
}

TEST_CASE("biases of a Llama are those of the textbook") {
  engine::config c = test::tiny_config();
  c.qkv_bias = true;
  const auto weights = test::random_checkpoint(c);
  const test::vec expected =
      test::reference_model(c, weights).logits({3, 4, 9, 8, 7}, {0, 1, 2, 3, 4});
  for (const int threads : {1, 3}) {
    engine::model m(c, weights, {.kind = arithmetic::f32, .threads = threads});
    test::row_batch text;
    text.add_chain(0, 0, {3, 4, 9, 8, 7});
    const rows got{test::copy(m.evaluate(text.view()).logits(4))};
    CHECK(test::difference(got, {expected}) < 1e-4);
  }
}

TEST_CASE("the first law after a known prefix is the Llama's, bitwise") {
  const fixture with;
  for (const arithmetic kind : test::arithmetics()) {
    CAPTURE(static_cast<int>(kind));
    const canvas asked = with.some(14, 2).asking({14});
    engine::model llama(with.shape.model, with.weights, {.kind = kind});
    test::row_batch text;
    text.add_chain(0, 0, {asked.tokens.begin(), asked.tokens.begin() + 14});
    CHECK(with.alone(asked, kind) == rows{test::copy(llama.evaluate(text.view()).logits(13))});
  }
}

TEST_CASE("a canvas among others, with any number of threads") {
  for_each_kind_of_model([](pattern p, bool shifted) {
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(static_cast<int>(kind));
      const fixture with(p, shifted);
      const std::vector<canvas> first = with.chain(with.some(9, 3), 5);
      const std::vector<canvas> second = with.chain(with.some(2, 2, 8), 2);
      canvas_batch batch;
      std::vector<rows> expected;
      for (const canvas& c : first) { batch.add(2, c); }
      for (const canvas& c : second) { batch.add(0, c); }
      for (const canvas& c : first) { expected.push_back(with.alone(c, kind)); }
      for (const canvas& c : second) { expected.push_back(with.alone(c, kind)); }
      for (const int threads : {1, 2, 3}) {
        CAPTURE(threads);
        engine::masked_model m = with.make(kind, threads);
        CHECK(logits(m, batch) == joined(expected));
        CHECK(logits(m, batch) == joined(expected));
      }
    }
  });
}

TEST_CASE("a cached prefix says what one that is read anew says") {
  for (const bool shifted : {false, true}) {
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(shifted);
      CAPTURE(static_cast<int>(kind));
      const fixture with(pattern::causal_prefix, shifted);
      engine::masked_model m = with.make(kind);
      canvas now = with.some(6, 4);
      while (!now.wanted.empty()) {
        canvas_batch batch;
        std::vector<rows> expected;
        for (const canvas& c :
             with.chain(now, std::min<int>(4, static_cast<int>(now.wanted.size()) - 1))) {
          batch.add(1, c);
          expected.push_back(with.alone(c, kind));
        }
        CHECK(logits(m, batch) == joined(expected));
        CHECK(m.length(1) == now.known);
        now = test::committed(test::unmasked(now, 5), with.shape.mask_token);
      }
    }
  }
}

TEST_CASE("more laws than rows") {
  const fixture with;
  for (const arithmetic kind : test::arithmetics()) {
    CAPTURE(static_cast<int>(kind));
    const canvas asked = with.some(2, 2).asking({2});
    canvas_batch batch;
    for (int i = 0; i < 50; ++i) { batch.add(0, asked); }
    engine::masked_model m = with.make(kind);
    CHECK(logits(m, batch) == rows(50, with.alone(asked, kind).front()));
  }
}

TEST_CASE("another text in a slot, and less of the same") {
  for (const bool shifted : {false, true}) {
    const fixture with(pattern::causal_prefix, shifted);
    engine::masked_model m = with.make();
    const canvas all = with.some(20, 2);
    canvas less = all;
    less.known = 11;
    less.block_end = 15;
    less.tokens[11] = with.shape.mask_token;
    less.wanted = {11, 20};
    canvas other = all;
    other.tokens[15] = 1;
    for (const canvas& c : {all, less, less, all, other, with.some(3, 2, 9), all}) {
      CHECK(logits(m, 0, c) == with.alone(c));
      CHECK(m.length(0) == c.known);
    }
    m.release(0);
    m.release(-1);
    m.release(3);
    CHECK(m.length(0) == 0);
    CHECK(logits(m, 0, all) == with.alone(all));
    // Canvases of one pass that know different texts share what they begin with.
    const rows two = logits(m, canvas_batch().add(0, all).add(0, other));
    CHECK(two == joined({with.alone(all), with.alone(other)}));
    CHECK(m.length(0) == 15);
    const rows both = logits(m, canvas_batch().add(0, all).add(0, other).add(0, less));
    CHECK(both == joined({with.alone(all), with.alone(other), with.alone(less)}));
    CHECK(m.length(0) == 11);
  }
}

TEST_CASE("rows that are computed") {
  const fixture with;
  const auto layers = static_cast<std::uint64_t>(with.shape.model.layers);
  engine::masked_model m = with.make();
  std::uint64_t before = 0;
  const auto rows_of = [&](const canvas_batch& batch) {
    m.evaluate(batch.view());
    const std::uint64_t now = m.layer_rows() / layers;
    return now - std::exchange(before, now);
  };
  const canvas open = with.some(11, 3);
  // The prefix once, and the block that says what the masks are.
  CHECK(rows_of(canvas_batch().add(0, open.asking({12, 14}))) == 15);
  CHECK(rows_of(canvas_batch().add(0, open.asking({12, 14}))) == 4);
  // The law of the second block's first position is in the first block.
  CHECK(rows_of(canvas_batch().add(0, open.asking({15}))) == 4);
  CHECK(rows_of(canvas_batch().add(0, open.asking({17}))) == 8);
  CHECK(rows_of(canvas_batch().add(0, open.asking({11}))) == 0);
  CHECK(rows_of(canvas_batch().add(0, open.asking({}))) == 0);
  // Two whose drafts fill the first block read its four tokens once.
  const std::vector<canvas> chain = with.chain(open, 4);
  canvas_batch batch;
  batch.add(0, chain[0].asking({12})).add(0, chain[3].asking({17})).add(0, chain[4].asking({17}));
  CHECK(rows_of(batch) == 4 + (4 + 4) + 4);
  CHECK(m.length(0) == 11);
}

TEST_CASE("a draft's canvas says what it says when it is committed") {
  for (const bool shifted : {false, true}) {
    const fixture with(pattern::causal_prefix, shifted);
    for (const canvas& draft : with.chain(with.some(7, 4), 8)) {
      const canvas text = test::committed(draft, with.shape.mask_token);
      CHECK(with.alone(draft) == with.alone(text));
      const auto expected = test::textbook(with.shape, with.weights, draft);
      CHECK(test::difference(with.alone(draft), expected) < 1e-4);
    }
  }
}

TEST_CASE("refused canvases change nothing") {
  for_each_kind_of_model([](pattern p, bool shifted) {
    const fixture with(p, shifted);
    const canvas good = with.some(9, 2);
    engine::masked_model m = with.make();
    const rows expected = logits(m, 0, good);
    const int length = m.length(0);
    const canvas more = with.some(12, 2, 9);
    const auto refused = [&](const canvas& bad, int slot = 1) {
      const auto batch = canvas_batch().add(0, more).add(slot, bad);
      CHECK_THROWS_AS(m.evaluate(batch.view()), std::logic_error);
      CHECK(m.length(0) == length);
      CHECK(logits(m, 0, good) == expected);
    };
    for (const hunch::token token : {-1, 75, 1000000}) {
      canvas bad = good;
      bad.tokens[3] = token;
      refused(bad);
    }
    refused(with.some(120, 4));
    refused({{}, 0, 0, {}});
    refused(good.asking({-1}));
    refused(good.asking({0x7fffffff}));
    refused(good.asking({11, 11}));
    refused(good.asking({static_cast<std::int32_t>(good.tokens.size())}));
    refused(good, -1);
    refused(good, 3);
    canvas bad = good;
    bad.known = static_cast<int>(bad.tokens.size()) + 1;
    refused(bad);
    bad.known = -1;
    refused(bad);
    if (p == pattern::causal_prefix) {
      refused(good.asking({8}));
      for (const int end : {9, 100}) {
        bad = good;
        bad.block_end = end;
        refused(bad);
      }
    }
    bad = good;
    bad.known = 0;
    if (shifted) {
      refused(bad);
      refused(good.asking({0}));
    } else {
      CHECK(logits(m, 1, bad) == with.alone(bad));
    }
    CHECK_THROWS_AS(m.evaluate(canvas_batch().add(0, good).add(1, good).add(0, good).view()),
                    std::invalid_argument);
    const auto result = m.evaluate(canvas_batch().add(0, good.asking({11})).view());
    CHECK_THROWS_AS(result.logits(1), std::out_of_range);
    CHECK_THROWS_AS(result.logits(-1), std::out_of_range);
  });
}

TEST_CASE("masked models that make no sense are refused") {
  const fixture with;
  const auto refused = [&](const engine::masked_config& shape,
                           const engine::model_options& options = {}) {
    CHECK_THROWS_AS(engine::masked_model(shape, with.weights, options), std::invalid_argument);
  };
  for (const hunch::token mask : {-1, 75}) {
    engine::masked_config shape = with.shape;
    shape.mask_token = mask;
    refused(shape);
  }
  engine::masked_config shape = with.shape;
  shape.block_length = -1;
  refused(shape);
  shape = with.shape;
  shape.model.embedding_rows = 74;
  refused(shape);
  refused(with.shape, {.context = 1000});
  refused(with.shape, {.keep_features = true});
}

TEST_CASE("a steady pass over canvases allocates nothing") {
  for_each_kind_of_model([](pattern p, bool shifted) {
    const fixture with(p, shifted);
    engine::masked_model made = with.make(arithmetic::bf16_fma, 2);
    engine::masked_model m = std::move(made);
    canvas_batch batch;
    for (const canvas& c : with.chain(with.some(9, 3), 4)) { batch.add(0, c); }
    for (const canvas& c : with.chain(with.some(5, 2), 2)) { batch.add(1, c); }
    m.evaluate(batch.view());
    const long before = test::allocation_count();
    for (int i = 0; i < 3; ++i) {
      m.evaluate(batch.view());
      m.release(1);
    }
    CHECK(test::allocation_count() == before);
  });
}

}  // namespace masked_test

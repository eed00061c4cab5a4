// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/device/masked_model.hpp>
#include <engine/masked_model.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/rows.hpp>

#include "closeness.hpp"
#include "team_host.hpp"
#include "tiny_masked.hpp"
#include "tiny_model.hpp"

/// Masked models on an executor say what those on the CPU say, up to what bfloat16 rounds away, and
/// cache the same; and a canvas says the same, bit for bit, among others and whatever is cached.

namespace device_masked_test {
namespace {

using engine::device_canvas_options;
using test::canvas;
using test::canvas_batch;
using test::pattern;
using rows = std::vector<std::vector<float>>;
using model = engine::device_masked_model<hunch::executor::host>;

constexpr device_canvas_options sizes{
    .max_batch = 3, .max_length = 0, .max_canvases = 64, .max_rows = 256, .max_wanted = 256};

struct fixture {
  engine::masked_config shape;
  engine::checkpoint weights;

  explicit fixture(pattern p = pattern::causal_prefix, bool shifted = true,
                   const engine::config& c = test::tiny_config())
      : shape{test::masked(c, p, shifted)},
        weights{test::random_checkpoint(c, engine::dtype::i8)} {}

  model make(const device_canvas_options& options = sizes) const {
    return {shape, weights, options};
  }
  engine::masked_model on_cpu() const {
    return {shape, weights, {.kind = engine::arithmetic::f32, .max_batch = 3}};
  }
  canvas some(int known, int blocks, unsigned seed = 7) const {
    return test::some_canvas(shape, known, blocks, seed);
  }
  /// What a model says that has read nothing else.
  rows alone(const canvas& c) const {
    model m = make();
    return test::logits(m, 0, c);
  }
  /// The canvas, and those with one more token each.
  std::vector<canvas> chain(const canvas& first, int drafts) const {
    std::vector<canvas> out{first};
    for (int i = 0; i < drafts; ++i) { out.push_back(test::unmasked(out.back(), 3 + i)); }
    return out;
  }
};

template <class F>
void for_each_kind_of_model(F f) {
  for (const pattern p : {pattern::full, pattern::causal_prefix}) {
    for (const bool shifted : {false, true}) {
      CAPTURE(static_cast<int>(p));
      CAPTURE(shifted);
      f(fixture(p, shifted));
    }
  }
}

void check_close(const rows& got, const rows& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(test::difference(got[i], expected[i]) < test::bf16_tolerance);
  }
}

void append(rows& to, rows from) { std::move(from.begin(), from.end(), std::back_inserter(to)); }

bool has_no_law(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isnan(x); });
}

/// A pass as a loop makes it that does not see how large it is: there may be more of everything.
struct padded_pass {
  explicit padded_pass(const canvas_batch& batch, std::int32_t canvases = 3)
      : pass(batch.view()),
        slot(pass.slot, pass.slot + pass.size),
        first(pass.first, pass.first + pass.size + 1),
        first_wanted(pass.first_wanted, pass.first_wanted + pass.size + 1),
        known(pass.known, pass.known + pass.size),
        block_end(pass.block_end, pass.block_end + pass.size) {
    for (std::int32_t i = 0; i < canvases; ++i) {
      slot.push_back(hunch::no_slot);
      first.push_back(first.back());
      first_wanted.push_back(first_wanted.back());
      known.push_back(0);
      block_end.push_back(0);
    }
    pass.size += canvases;
    pass.slot = slot.data();
    pass.first = first.data();
    pass.first_wanted = first_wanted.data();
    pass.known = known.data();
    pass.block_end = block_end.data();
    pass.token_count += 37;
    pass.wanted_count += 5;
  }

  hunch::diffusion::canvases pass;
  std::vector<std::int32_t> slot, first, first_wanted, known, block_end;
};

}  // namespace

TEST_CASE("device masked model: logits are the engine's up to bfloat16") {
  for_each_kind_of_model([](const fixture& with) {
    engine::masked_model expected = with.on_cpu();
    model got = with.make();
    for (const int known : {1, 5, 12}) {
      CAPTURE(known);
      canvas_batch batch;
      for (const canvas& c : with.chain(with.some(known, 3), 5)) { batch.add(2, c); }
      for (const canvas& c : with.chain(with.some(2, 2, 8), 2)) { batch.add(0, c); }
      check_close(test::logits(got, batch), test::logits(expected, batch));
      for (const int slot : {0, 1, 2}) { CHECK(got.length(slot) == expected.length(slot)); }
    }
  });
}

TEST_CASE("device masked model: heads of their own and padded embeddings") {
  for (const bool tied : {false, true}) {
    engine::config c = test::tiny_config();
    c.tied_head = tied;
    c.embedding_rows = c.vocab_size + 3;
    engine::masked_config shape = test::masked(c, pattern::full, false);
    shape.mask_token = c.vocab_size + 1;
    const auto weights = test::random_checkpoint(c);
    engine::masked_model expected(shape, weights, {.kind = engine::arithmetic::f32});
    model got(shape, weights);
    const canvas asked = test::some_canvas(shape, 5, 2);
    check_close(test::logits(got, 0, asked), test::logits(expected, 0, asked));
  }
}

TEST_CASE("device masked model: biases") {
  engine::config c = test::tiny_config();
  c.qkv_bias = true;
  const engine::masked_config shape = test::masked(c, pattern::causal_prefix, true);
  const auto weights = test::random_checkpoint(c);
  engine::masked_model expected(shape, weights, {.kind = engine::arithmetic::f32});
  model got(shape, weights);
  const canvas asked = test::some_canvas(shape, 5, 2);
  check_close(test::logits(got, 0, asked), test::logits(expected, 0, asked));
}

TEST_CASE("device masked model: the shipped model") {
  const auto directory = std::filesystem::path(HUNCH_TEST_MODELS) / "masked";
  auto expected = engine::masked_model::load(directory, {.kind = engine::arithmetic::f32});
  auto got = model::load(directory, {.max_length = 64});
  const canvas asked = test::some_canvas(expected.shape(), 9, 3);
  const rows a = test::logits(expected, 0, asked);
  const rows b = test::logits(got, 0, asked);
  check_close(b, a);
  CHECK(test::difference(b[0], a[1]) > 2 * test::bf16_tolerance);
}

TEST_CASE("device masked model: a canvas among others, with padding") {
  for_each_kind_of_model([](const fixture& with) {
    canvas_batch batch;
    rows expected;
    for (const canvas& c : with.chain(with.some(9, 3), 5)) {
      batch.add(2, c);
      append(expected, with.alone(c));
    }
    for (const canvas& c : with.chain(with.some(2, 2, 8), 2)) {
      batch.add(0, c);
      append(expected, with.alone(c));
    }
    model m = with.make();
    CHECK(test::logits(m, batch) == expected);
    CHECK(test::logits(m, batch) == expected);
    const padded_pass padded(batch);
    const auto result = m.evaluate(padded.pass);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(test::copy(result.logits(static_cast<std::int32_t>(i))) == expected[i]);
    }
  });
}

TEST_CASE("device masked model: a cached prefix says what one that is read anew says") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const fixture with(pattern::causal_prefix, shifted);
    model m = with.make();
    canvas now = with.some(6, 4);
    while (!now.wanted.empty()) {
      canvas_batch batch;
      rows expected;
      const auto drafts = std::min<int>(4, static_cast<int>(now.wanted.size()) - 1);
      for (const canvas& c : with.chain(now, drafts)) {
        batch.add(1, c);
        append(expected, with.alone(c));
      }
      CHECK(test::logits(m, batch) == expected);
      CHECK(m.length(1) == now.known);
      now = test::committed(test::unmasked(now, 5), with.shape.mask_token);
    }
    m.release(1);
    m.release(-1);
    m.release(3);
    CHECK(m.length(1) == 0);
  }
}

TEST_CASE("device masked model: another text in a slot, and less of the same") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const fixture with(pattern::causal_prefix, shifted);
    model m = with.make();
    const canvas all = with.some(20, 2);
    canvas less = all;
    less.known = 11;
    less.block_end = 15;
    less.tokens[11] = with.shape.mask_token;
    less.wanted = {11, 20};
    canvas other = all;
    other.tokens[15] = 1;
    for (const canvas& c : {all, less, less, all, other, with.some(3, 2, 9), all}) {
      CHECK(test::logits(m, 0, c) == with.alone(c));
      CHECK(m.length(0) == c.known);
    }
    rows expected = with.alone(all);
    append(expected, with.alone(other));
    CHECK(test::logits(m, canvas_batch().add(0, all).add(0, other)) == expected);
    CHECK(m.length(0) == 15);
    append(expected, with.alone(less));
    CHECK(test::logits(m, canvas_batch().add(0, all).add(0, other).add(0, less)) == expected);
    CHECK(m.length(0) == 11);
  }
}

TEST_CASE("device masked model: rows are those of the engine") {
  for_each_kind_of_model([](const fixture& with) {
    const canvas open = with.some(11, 3);
    const std::vector<canvas> chain = with.chain(open, 4);
    std::vector<canvas_batch> passes(4);
    passes[0].add(0, open.asking({12, 14}));
    passes[1].add(0, open.asking({15}));
    passes[2].add(0, chain[0].asking({12})).add(0, chain[3].asking({17}));
    passes[2].add(0, chain[4].asking({17})).add(1, with.some(3, 2));
    passes[3].add(1, open.asking({})).add(0, open.asking({12}));
    engine::masked_model expected = with.on_cpu();
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      CAPTURE(i);
      test::logits(expected, passes[i]);
      const std::uint64_t now =
          expected.layer_rows() / static_cast<std::uint64_t>(with.shape.model.layers);
      const auto count = static_cast<std::int32_t>(now - std::exchange(before, now));
      for (const bool enough : {true, false}) {
        model m = with.make();
        for (std::size_t earlier = 0; earlier < i; ++earlier) { test::logits(m, passes[earlier]); }
        const auto asked = passes[i].view();
        auto bounded = asked;
        bounded.token_count = enough ? count : count - 1;
        const auto result = m.evaluate(bounded);
        CHECK(has_no_law(test::copy(result.logits(asked.wanted_count - 1))) == !enough);
      }
    }
  });
}

TEST_CASE("device masked model: what has no room has no law, and is not cached") {
  for_each_kind_of_model([](const fixture& with) {
    const canvas one = with.some(9, 3);
    const canvas two = with.some(7, 2, 8);
    const auto size = [](const canvas& c) { return static_cast<std::int32_t>(c.tokens.size()); };
    device_canvas_options few = sizes;
    few.max_rows = size(one) + size(two) - 9;
    model m = with.make(few);
    rows got = test::logits(m, canvas_batch().add(1, one).add(0, two));
    const rows of_one = with.alone(one);
    CHECK(std::equal(of_one.begin(), of_one.end(), got.begin()));
    for (std::size_t i = of_one.size(); i < got.size(); ++i) { CHECK(has_no_law(got[i])); }
    CHECK(m.length(0) == 0);
    CHECK(test::logits(m, 0, two) == with.alone(two));
    // The rows of a slot, too, have places of which there are so many.
    few.max_rows = size(one) - 9;
    model small = with.make(few);
    got = test::logits(small, canvas_batch().add(1, one));
    for (const auto& row : got) { CHECK(has_no_law(row)); }
    CHECK(small.length(1) == 0);
  });
}

TEST_CASE("device masked model: canvases that break the rules have no law") {
  const fixture with;
  const canvas good = with.some(9, 2);
  const rows expected = with.alone(good);
  model m = with.make();
  canvas end = good;
  end.block_end = 100;
  canvas known = good;
  known.known = -1;
  const canvas early = good.asking({8});
  const canvas late = good.asking({100});
  for (const canvas& bad : {end, known, early, late}) {
    const rows got = test::logits(m, canvas_batch().add(0, good).add(1, bad));
    CHECK(rows(got.begin(), got.begin() + static_cast<int>(expected.size())) == expected);
    for (std::size_t i = expected.size(); i < got.size(); ++i) { CHECK(has_no_law(got[i])); }
    CHECK(m.length(1) == 0);
  }
  for (const auto& row : test::logits(m, canvas_batch().add(7, good))) { CHECK(has_no_law(row)); }
}

TEST_CASE("device masked model: what makes no sense is refused") {
  const fixture with;
  const auto refused = [&](const device_canvas_options& options) {
    CHECK_THROWS_AS(with.make(options), std::invalid_argument);
  };
  refused({.max_batch = 0});
  refused({.max_length = 1000});
  refused({.max_canvases = 0});
  refused({.max_rows = 0});
  engine::masked_config shape = with.shape;
  shape.mask_token = -1;
  CHECK_THROWS_AS(model(shape, with.weights), std::invalid_argument);

  model m = with.make({.max_batch = 3, .max_canvases = 2, .max_wanted = 6});
  const canvas one = with.some(9, 2).asking({9, 11});
  const auto evaluate = [&](const canvas_batch& batch) { test::logits(m, batch); };
  evaluate(canvas_batch().add(0, one).add(1, one));
  CHECK_THROWS_AS(evaluate(canvas_batch().add(0, one).add(1, one).add(2, one)),
                  std::invalid_argument);
  CHECK_THROWS_AS(evaluate(canvas_batch().add(0, with.some(9, 3))), std::invalid_argument);
}

TEST_CASE("device masked model: teams of threads compute the same bits") {
  for_each_kind_of_model([](const fixture& with) {
    const auto all = [&](auto executor) {
      engine::device_masked_model m(with.shape, with.weights, sizes, executor);
      canvas_batch batch;
      for (const canvas& c : with.chain(with.some(6, 2), 3)) { batch.add(2, c); }
      batch.add(0, with.some(3, 2, 8));
      rows out = test::logits(m, batch);
      append(out, test::logits(m, batch));
      return out;
    };
    CHECK(all(test::team_host<3>{}) == all(hunch::executor::host{}));
  });
}

}  // namespace device_masked_test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <hunch/diffusion/model_drafts.hpp>
#include <hunch/diffusion/self_speculation.hpp>

#include "masked_texts.hpp"
#include "tiny_masked.hpp"

/// The head that drafts for masked models: what it computes is the textbook's, whatever it is
/// computed beside, and what it drafts changes no text.

namespace {

using engine::arithmetic;
using hunch::diffusion::decided_canvases;
using test::canvas;
using test::canvas_batch;

using rows = std::vector<std::vector<float>>;

struct fixture {
  engine::config head_config;
  engine::masked_config shape;
  engine::checkpoint weights;
  engine::checkpoint head_weights;

  explicit fixture(test::pattern p = test::pattern::causal_prefix, bool shifted = true,
                   const engine::config& c = test::tiny_config(),
                   engine::dtype type = engine::dtype::f32)
      : head_config{c},
        shape{test::masked(c, p, shifted)},
        weights{test::random_checkpoint(c, type)},
        head_weights{test::in_memory(tensors(c, type))} {
    head_config.layers = 1;
  }

  /// Embedding and head are those of the target.
  static std::vector<test::stored_tensor> tensors(const engine::config& c, engine::dtype type) {
    engine::config one_layer = c;
    one_layer.layers = 1;
    auto all = test::random_tensors(one_layer, type, 5);
    std::erase_if(all, [](const test::stored_tensor& t) {
      return t.name.starts_with("model.embed_tokens") || t.name.starts_with("lm_head");
    });
    std::vector<float> fc;
    for (int i = 0; i < 2 * c.hidden * c.hidden; ++i) {
      fc.push_back(static_cast<float>((i * 7919) % 201 - 100) / 1000.0f);
    }
    for (auto& t : test::encode("model.fc.weight", fc, {c.hidden, 2 * c.hidden}, type)) {
      all.push_back(std::move(t));
    }
    for (auto& t : test::random_tensors(c, type)) {
      if (t.name.starts_with("model.embed_tokens") || t.name.starts_with("lm_head")) {
        all.push_back(std::move(t));
      }
    }
    return all;
  }

  engine::masked_model target(arithmetic kind, int threads = 1) const {
    return {shape, weights, {.kind = kind, .threads = threads, .max_batch = 3}};
  }
  engine::canvas_head head(const engine::masked_model& of, arithmetic kind, int threads = 1) const {
    return {head_config, head_weights, of, {.kind = kind, .threads = threads, .max_batch = 3}};
  }
};

/// The head observes canvas `kept` of a pass over `batch`.
void observe(engine::canvas_head& head, engine::masked_model& target, const canvas_batch& batch,
             std::vector<std::int32_t> kept) {
  const auto pass = batch.view();
  head.observe(decided_canvases{pass, static_cast<std::int32_t>(kept.size()), kept.data()},
               target.evaluate(pass));
}

rows logits(engine::canvas_head& head, const canvas_batch& batch) {
  const auto result = head.evaluate(batch.view());
  rows out;
  for (std::int32_t i = 0; i < result.size(); ++i) { out.push_back(test::copy(result.logits(i))); }
  return out;
}

/// The logits of the positions wanted of `now`, in double precision; `then` is what was observed.
std::vector<test::vec> textbook(const fixture& with, const canvas& then, const canvas& now) {
  const auto& c = with.shape.model;
  const test::reference_model reference(with.head_config, with.head_weights);
  std::vector<test::vec> x;
  std::vector<int> positions;
  const auto states = test::textbook_states(with.shape, with.weights, then);
  for (std::size_t j = 0; j < then.wanted.size(); ++j) {
    const int position = then.wanted[j];
    test::vec joined = reference.embedding(now.tokens[static_cast<std::size_t>(position)]);
    joined.insert(joined.end(), states[j].begin(), states[j].end());
    x.push_back(
        test::reference_model::product(with.head_weights, "model.fc.weight", c.hidden, joined));
    positions.push_back(position);
  }
  const auto block = [&](std::size_t i) {
    return (positions[i] - then.known) / (then.block_end - then.known);
  };
  const auto out = reference.continued(
      x, positions, [&](std::size_t i, std::size_t j) { return block(j) <= block(i); });
  std::vector<test::vec> result;
  for (std::size_t j = 0; j < positions.size(); ++j) {
    if (std::count(now.wanted.begin(), now.wanted.end(), positions[j]) == 1) {
      result.push_back(reference.head(out[j]));
    }
  }
  return result;
}

/// Two texts that were observed, and what is asked of them later.
struct texts {
  canvas first_then, first_now, second_then, second_now;

  explicit texts(const fixture& with)
      : first_then{test::some_canvas(with.shape, 9, 2)},
        first_now{test::written(test::written(first_then, 3), 4)},
        second_then{test::some_canvas(with.shape, 2, 3, 8)},
        second_now{test::written(second_then, 5)} {}
};

}  // namespace

TEST_CASE("what a head makes of a canvas is the textbook's") {
  for (const test::pattern p : {test::pattern::full, test::pattern::causal_prefix}) {
    for (const bool shifted : {false, true}) {
      CAPTURE(shifted);
      const fixture with(p, shifted);
      const texts of(with);
      engine::masked_model target = with.target(arithmetic::f32);
      engine::canvas_head head = with.head(target, arithmetic::f32);
      observe(head, target, canvas_batch().add(1, of.first_then), {0});
      CHECK(test::difference(logits(head, canvas_batch().add(1, of.first_now)),
                             textbook(with, of.first_then, of.first_now)) < 1e-4);
      // Without what was written since, another one.
      canvas unwritten = of.first_now;
      unwritten.tokens = of.first_then.tokens;
      CHECK(test::difference(logits(head, canvas_batch().add(1, of.first_now)),
                             textbook(with, of.first_then, unwritten)) > 1e-2);
    }
  }
}

TEST_CASE("a head's canvas among others, with any number of threads") {
  for (const arithmetic kind : test::arithmetics()) {
    CAPTURE(static_cast<int>(kind));
    const fixture with;
    const texts of(with);
    engine::masked_model target = with.target(kind);
    engine::canvas_head alone = with.head(target, kind);
    observe(alone, target, canvas_batch().add(0, of.second_then), {0});
    const rows second = logits(alone, canvas_batch().add(0, of.second_now));
    observe(alone, target, canvas_batch().add(0, of.first_then), {0});
    const rows first = logits(alone, canvas_batch().add(0, of.first_now));
    rows both = first;
    both.insert(both.end(), second.begin(), second.end());
    for (const int threads : {1, 3}) {
      engine::canvas_head head = with.head(target, kind, threads);
      // The third canvas of the pass is the one that is kept of the first text.
      canvas_batch pass;
      pass.add(2, test::some_canvas(with.shape, 9, 2, 12)).add(2, of.second_then);
      pass.add(2, of.first_then).add(1, of.second_then);
      observe(head, target, pass, {2, 3});
      CHECK(logits(head, canvas_batch().add(2, of.first_now).add(1, of.second_now)) == both);
      CHECK(logits(head, canvas_batch().add(1, of.second_now)) == second);
    }
  }
}

TEST_CASE("what was not observed is not asked of a head") {
  const fixture with;
  const texts of(with);
  engine::masked_model target = with.target(arithmetic::f32);
  engine::canvas_head head = with.head(target, arithmetic::f32);
  const auto ask = [&](int slot, const canvas& c) { logits(head, canvas_batch().add(slot, c)); };
  CHECK_THROWS_AS(ask(0, of.first_now), std::invalid_argument);
  observe(head, target, canvas_batch().add(0, of.first_then), {0});
  ask(0, of.first_now);
  CHECK_THROWS_AS(ask(1, of.first_now), std::invalid_argument);
  CHECK_THROWS_AS(ask(3, of.first_now), std::out_of_range);
  CHECK_THROWS_AS(ask(-1, of.first_now), std::out_of_range);
  CHECK_THROWS_AS(ask(0, of.first_now.asking({1})), std::invalid_argument);
  CHECK_THROWS_AS(logits(head, canvas_batch().add(0, of.first_now).add(0, of.first_now)),
                  std::invalid_argument);
  canvas shorter = of.first_now;
  shorter.tokens.resize(static_cast<std::size_t>(shorter.known) + 2);
  CHECK_THROWS_AS(ask(0, shorter.asking({shorter.known})), std::invalid_argument);
  canvas strange = of.first_now;
  strange.tokens[static_cast<std::size_t>(of.first_then.wanted.front())] = 75;
  CHECK_THROWS_AS(ask(0, strange), std::out_of_range);
  ask(0, of.first_now);
  head.release(0);
  CHECK_THROWS_AS(ask(0, of.first_now), std::invalid_argument);
  head.release(-1);
  head.release(3);
}

TEST_CASE("heads that do not fit a masked model are refused") {
  const fixture with;
  const engine::masked_model target = with.target(arithmetic::f32);
  engine::config other = with.head_config;
  other.vocab_size = 74;
  CHECK_THROWS_AS(engine::canvas_head(other, with.head_weights, target), std::invalid_argument);
  other = with.head_config;
  other.hidden = 48;
  CHECK_THROWS_AS(engine::canvas_head(other, with.head_weights, target), std::invalid_argument);
  CHECK_THROWS_AS(engine::canvas_head(with.head_config, with.weights, target), std::runtime_error);
}

TEST_CASE("a head's drafts change speed only") {
  for (const test::pattern p : {test::pattern::full, test::pattern::causal_prefix}) {
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(static_cast<int>(p));
      CAPTURE(static_cast<int>(kind));
      const fixture with(p, true, test::tiny_config(), engine::dtype::i8);
      engine::masked_model target = with.target(kind, 2);
      engine::canvas_head head = with.head(target, kind, 2);
      const auto stepwise = test::fill_two(target, hunch::diffusion::stepwise{}, 0).writes;
      CHECK(stepwise.at(1).size() == 18);
      CHECK(stepwise.at(2).size() == 23);
      for (const int length : {1, 3, 6}) {
        const auto drafts = hunch::diffusion::drafted_by<6>(head);
        CHECK(test::fill_two(target, drafts, length).writes == stepwise);
      }
    }
  }
}

TEST_CASE("a head that repeats what the target said drafts what the target's logits do") {
  // Its layer adds nothing, and its first product takes the state: its norm is all that changes it.
  fixture with;
  auto tensors = fixture::tensors(with.shape.model, engine::dtype::f32);
  const int hidden = with.shape.model.hidden;
  for (test::stored_tensor& t : tensors) {
    const bool branch = t.name.ends_with("o_proj.weight") || t.name.ends_with("down_proj.weight");
    if (branch) { std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0}); }
    if (t.name == "model.norm.weight") {
      t = test::encode(t.name, std::vector<float>(static_cast<std::size_t>(hidden), 1.0f), t.shape,
                       engine::dtype::f32)
              .front();
    }
    if (t.name == "model.fc.weight") {
      std::vector<float> takes_state(static_cast<std::size_t>(2 * hidden * hidden), 0.0f);
      for (int i = 0; i < hidden; ++i) {
        takes_state[static_cast<std::size_t>(i * 2 * hidden + hidden + i)] = 1.0f;
      }
      t = test::encode(t.name, takes_state, t.shape, engine::dtype::f32).front();
    }
  }
  with.head_weights = test::in_memory(tensors);
  engine::masked_model target = with.target(arithmetic::f32);
  engine::canvas_head head = with.head(target, arithmetic::f32);
  const auto by_itself = test::fill_two(target, hunch::diffusion::self_speculation<4>{}, 4);
  const auto by_head = test::fill_two(target, hunch::diffusion::drafted_by<4>(head), 4);
  CHECK(by_head.writes == by_itself.writes);
  // A norm without weights rescales the logits, which changes a few drafts.
  CHECK(by_itself.accepted > 8);
  CHECK(by_head.accepted > 8);
}

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>

#include "counted_new.hpp"
#include "masked_texts.hpp"
#include "temporary_directory.hpp"
#include "tiny_canvas_head.hpp"
#include "tiny_masked.hpp"

/// The head that drafts for masked models: what it computes is the textbook's, whatever it is
/// computed beside, and what it drafts changes no text.

namespace {

using engine::arithmetic;
using hunch::diffusion::decided_canvases;
using test::canvas;
using test::canvas_batch;
using test::logits;
using test::observe;
using texts = test::head_texts;

using rows = std::vector<std::vector<float>>;

struct fixture : test::canvas_head_parts {
  using canvas_head_parts::canvas_head_parts;

  engine::masked_model target(arithmetic kind, int threads = 1) const {
    return {shape, weights, {.kind = kind, .threads = threads, .max_batch = 3}};
  }
  engine::canvas_head head(engine::masked_model& of, arithmetic kind, int threads = 1) const {
    return {head_config, head_weights, of, {.kind = kind, .threads = threads, .max_batch = 3}};
  }
};

/// A tensor of the target, by another name.
test::stored_tensor of_target(const fixture& with, const std::string& name, const std::string& as) {
  for (test::stored_tensor t : test::random_tensors(with.shape.model, engine::dtype::f32)) {
    if (t.name == name) {
      t.name = as;
      return t;
    }
  }
  throw std::runtime_error("there is no " + name);
}

/// The logits of the positions wanted of `now`, in double precision; `asked` is what was observed.
std::vector<test::vec> textbook(const fixture& with, const canvas& asked, const canvas& now) {
  const auto& c = with.shape.model;
  const canvas then = test::committed(asked, with.shape.mask_token);
  const test::reference_model target(c, with.weights);
  const test::reference_model head(with.head_config.model, with.head_weights);
  const auto first = static_cast<std::size_t>(asked.known);
  std::vector<int> positions(then.tokens.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto sees = test::visibility(with.shape, then);
  const std::vector<int> before(positions.begin(), positions.begin() + asked.known);
  const std::vector<int> after(positions.begin() + asked.known, positions.end());

  std::vector<test::reference_model::keys_values> cached;
  for (const int layer : with.head_config.cached_layers) {
    auto x = target.residuals(then.tokens, layer, sees);
    x.resize(first);
    cached.push_back(target.read(layer, x, before));
  }
  auto x = target.residuals(then.tokens, with.head_config.target_layer, sees);
  x.erase(x.begin(), x.begin() + asked.known);
  for (std::size_t j = 0; j < x.size(); ++j) {
    const hunch::token token = now.tokens[first + j];
    if (token == then.tokens[first + j]) { continue; }
    test::vec joined =
        head.norm(with.head_weights, "model.embedding_norm.weight", head.embedding(token));
    joined.insert(joined.end(), x[j].begin(), x[j].end());
    x[j] = test::reference_model::product(with.head_weights, "model.fc.weight", c.hidden, joined);
  }
  const auto out = head.continued(
      x, after, [&](std::size_t i, std::size_t j) { return sees(first + i, first + j); }, cached);
  std::vector<test::vec> result;
  for (const std::int32_t position : now.wanted) {
    const int row = position - (with.shape.shifted ? 1 : 0);
    // The row before the committed text's first block has read nothing that is written now.
    result.push_back(row < asked.known
                         ? test::textbook(with.shape, with.weights, then.asking({position})).front()
                         : head.head(out[static_cast<std::size_t>(row - asked.known)]));
  }
  return result;
}

}  // namespace

TEST_CASE("what a head makes of a canvas is the textbook's") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const fixture with(shifted);
    const texts of(with);
    engine::masked_model target = with.target(arithmetic::f32);
    engine::canvas_head head = with.head(target, arithmetic::f32);
    observe(head, target, canvas_batch().add(1, of.first_then), {0});
    CHECK(test::difference(logits(head, canvas_batch().add(1, of.first_now)),
                           textbook(with, of.first_then, of.first_now)) < 1e-4);
    // Where rows are shifted, the law of the first position is in the known text, which nothing
    // changes that is written.
    const canvas opening = of.first_before.asking({9, 11, 12, 14});
    REQUIRE(opening.known == 9);
    observe(head, target, canvas_batch().add(1, opening), {0});
    const canvas opening_now = test::unmasked(opening, 4, 1);
    CHECK(test::difference(logits(head, canvas_batch().add(1, opening_now)),
                           textbook(with, opening, opening_now)) < 1e-4);
    if (shifted) {
      CHECK(logits(head, canvas_batch().add(1, opening_now.asking({9}))) ==
            test::logits(target, 0, opening.asking({9})));
    }
    // A canvas whose drafts have filled the first block: its rows are read with the others.
    canvas filled = of.first_then;
    for (const hunch::token t : {3, 4}) { filled = test::unmasked(filled, t); }
    REQUIRE(test::committed(filled, with.shape.mask_token).known > filled.known);
    observe(head, target, canvas_batch().add(1, of.first_then).add(1, filled), {1});
    const canvas filled_now = test::unmasked(test::unmasked(filled, 5), 6);
    CHECK(test::difference(logits(head, canvas_batch().add(1, filled_now)),
                           textbook(with, filled, filled_now)) < 1e-4);
    // Without what was written since, another one.
    canvas unwritten = of.first_now;
    unwritten.tokens = of.first_then.tokens;
    observe(head, target, canvas_batch().add(1, of.first_then), {0});
    CHECK(test::difference(logits(head, canvas_batch().add(1, of.first_now)),
                           textbook(with, of.first_then, unwritten)) > 1e-2);
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
      engine::masked_model same_target = with.target(kind, threads);
      engine::canvas_head head = with.head(same_target, kind, threads);
      // The third canvas of the pass is the one that is kept of the first text.
      canvas_batch pass;
      pass.add(2, of.first_before).add(2, test::unmasked(of.first_before, 6));
      pass.add(2, of.first_then).add(1, of.second_then);
      observe(head, same_target, pass, {2, 3});
      CHECK(logits(head, canvas_batch().add(2, of.first_now).add(1, of.second_now)) == both);
      CHECK(logits(head, canvas_batch().add(1, of.second_now)) == second);
    }
  }
}

TEST_CASE("a masked model and its head allocate nothing in a steady pass") {
  const fixture with;
  const texts of(with);
  for (const arithmetic kind : test::arithmetics()) {
    engine::masked_model target = with.target(kind, 2);
    engine::canvas_head head = with.head(target, kind, 2);
    canvas_batch pass, now;
    pass.add(0, of.first_before).add(0, of.first_then).add(2, of.second_then);
    now.add(0, of.first_now).add(2, of.second_now);
    const std::vector<std::int32_t> kept{1, 2};
    for (const bool steady : {false, true}) {
      const long before = test::allocation_count();
      const auto asked = pass.view();
      head.observe(decided_canvases{asked, 2, kept.data()}, target.evaluate(asked));
      head.evaluate(now.view());
      CHECK((test::allocation_count() == before) == steady);
    }
  }
}

TEST_CASE("a head that was left alone changes nothing that its target says") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const fixture with(shifted);
    const texts of(with);
    // The same text when its first two blocks are known, and more.
    canvas later = of.first_before;
    for (int i = 0; i < 5; ++i) { later = test::unmasked(later, 11 + i); }
    later = test::committed(later, with.shape.mask_token);
    REQUIRE(later.known >= 17);
    for (const canvas& next : {later, of.first_before}) {
      engine::masked_model fresh = with.target(arithmetic::f32);
      const rows expected = test::logits(fresh, 1, next);
      engine::masked_model target = with.target(arithmetic::f32);
      engine::canvas_head head = with.head(target, arithmetic::f32);
      observe(head, target, canvas_batch().add(1, of.first_before), {0});
      test::logits(target, 1, later);
      CHECK(target.length(1) == later.known);
      logits(head, canvas_batch().add(1, test::unmasked(of.first_before, 3)));
      CHECK(test::logits(target, 1, next) == expected);
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
  engine::masked_model target = with.target(arithmetic::f32);
  const auto refused = [&](auto&& change) {
    engine::canvas_head_config other = with.head_config;
    change(other);
    CHECK_THROWS_AS(engine::canvas_head(other, with.head_weights, target), std::invalid_argument);
  };
  refused([](auto& c) { c.model.vocab_size = 74; });
  refused([](auto& c) { c.model.hidden = 48; });
  refused([](auto& c) { c.model.kv_heads = c.model.heads; });
  refused([](auto& c) { c.model.head_dim *= 2; });
  refused([](auto& c) { c.model.rope.theta = 5000.0; });
  refused([](auto& c) { c.model.embedding_rows = c.model.vocab_size + 1; });
  refused([](auto& c) { c.model.context /= 2; });
  refused([](auto& c) { c.target_layer = 3; });
  refused([](auto& c) { c.target_layer = -1; });
  refused([](auto& c) { c.cached_layers = {1, 3}; });
  refused([](auto& c) { c.cached_layers = {-1, 1}; });
  refused([](auto& c) { c.cached_layers = {1}; });
  CHECK_THROWS_AS(engine::canvas_head(with.head_config, with.weights, target), std::runtime_error);
  {
    engine::canvas_head first = with.head(target, arithmetic::f32);
    refused([](auto& c) { c.target_layer = 1; });
    const engine::canvas_head moved = std::move(first);
    refused([](auto& c) { c.target_layer = 1; });
  }
  // The target keeps residuals only as long as a head reads them.
  engine::canvas_head_config earlier = with.head_config;
  earlier.target_layer = 1;
  const engine::canvas_head next(earlier, with.head_weights, target);
  refused([](auto&) {});
  engine::masked_config sees_all = with.shape;
  sees_all.pattern = test::pattern::full;
  engine::masked_model other_target(sees_all, with.weights);
  CHECK_THROWS_AS(engine::canvas_head(with.head_config, with.head_weights, other_target),
                  std::invalid_argument);
}

TEST_CASE("what a head reads of the target is in its config") {
  const test::temporary_directory folder;
  const auto read = [&](const std::string& more) {
    std::ofstream(folder.path() / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2,
               "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
               "vocab_size": 75, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
               "rope_theta": 10000.0, "tie_word_embeddings": true)"
        << more << "}";
    return engine::read_canvas_head_config(folder.path() / "config.json");
  };
  const auto found = read(R"(, "target_layer": 5, "cached_layers": [2, 5])");
  CHECK(found.model.hidden == 32);
  CHECK(found.target_layer == 5);
  CHECK(found.cached_layers == std::vector{2, 5});
  for (const char* wrong : {R"(, "target_layer": 5)", R"(, "cached_layers": [2, 5])",
                            R"(, "target_layer": 5, "cached_layers": [2])",
                            R"(, "target_layer": 5, "cached_layers": 2)",
                            R"(, "target_layer": 5, "cached_layers": [2, -1])",
                            R"(, "target_layer": 5, "cached_layers": [2, 70000])",
                            R"(, "target_layer": 5, "cached_layers": [2, "a"])",
                            R"(, "target_layer": 2147483647, "cached_layers": [2, 5])",
                            R"(, "target_layer": -5, "cached_layers": [2, 5])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(read(wrong), std::runtime_error);
  }
}

TEST_CASE("a head's drafts change speed only") {
  for (const arithmetic kind : test::arithmetics()) {
    CAPTURE(static_cast<int>(kind));
    const fixture with(true, engine::dtype::i8);
    engine::masked_model target = with.target(kind, 2);
    engine::canvas_head head = with.head(target, kind, 2);
    const auto stepwise = test::fill_two(target, hunch::diffusion::stepwise{}, 0).unmaskings;
    CHECK(stepwise.at(1).size() == 18);
    CHECK(stepwise.at(2).size() == 23);
    for (const int length : {1, 3, 6}) {
      const auto drafts = hunch::diffusion::drafted_by<6>(head);
      CHECK(test::fill_two(target, drafts, length).unmaskings == stepwise);
    }
  }
}

TEST_CASE("a head that repeats what the target said drafts what the target's logits do") {
  // Its layers add nothing to residuals from after the target's layers but one, whose weights the
  // last of them has; what is written is as a mask.
  fixture with;
  auto tensors = fixture::tensors(with.shape.model, engine::dtype::f32);
  const auto hidden = static_cast<std::size_t>(with.shape.model.hidden);
  for (test::stored_tensor& t : tensors) {
    const std::string own = "model.layers.1.";
    const bool is_branch =
        t.name.ends_with("o_proj.weight") || t.name.ends_with("down_proj.weight");
    if (t.name.starts_with(own) || t.name == "model.norm.weight") {
      const bool is_norm = t.name == "model.norm.weight";
      t = of_target(with, is_norm ? t.name : "model.layers.2." + t.name.substr(own.size()), t.name);
    } else if (is_branch) {
      std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0});
    } else if (t.name == "model.fc.weight") {
      std::vector<float> takes_residual(2 * hidden * hidden, 0.0f);
      for (std::size_t i = 0; i < hidden; ++i) {
        takes_residual[i * 2 * hidden + hidden + i] = 1.0f;
      }
      t = test::encode(t.name, takes_residual, t.shape, engine::dtype::f32).front();
    }
  }
  with.head_weights = test::in_memory(tensors);
  engine::masked_model target = with.target(arithmetic::f32);
  engine::canvas_head head = with.head(target, arithmetic::f32);
  for (const canvas& c :
       {test::some_canvas(with.shape, 9, 4), test::some_canvas(with.shape, 2, 3)}) {
    observe(head, target, canvas_batch().add(1, c), {0});
    CHECK(logits(head, canvas_batch().add(1, c)) == test::logits(target, 1, c));
  }
  const auto by_itself = test::fill_two(target, hunch::diffusion::self_speculation<4>{}, 4);
  const auto by_head = test::fill_two(target, hunch::diffusion::drafted_by<4>(head), 4);
  CHECK(by_head.unmaskings == by_itself.unmaskings);
  CHECK(by_itself.accepted > 8);
  CHECK(by_head.accepted > 8);
}

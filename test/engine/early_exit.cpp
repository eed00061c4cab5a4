// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/model.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "reference.hpp"
#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// A view of a target's first layers: what it says, and what the target takes over from it.

namespace early_exit_test {
namespace {

using engine::arithmetic;
using test::prompt;
using test::row_batch;
using test::tree;

constexpr int exit_layer = 2;
constexpr int all_layers = 5;

engine::config deep_config() {
  engine::config c = test::tiny_config();
  c.layers = all_layers;
  return c;
}

/// A target with a view, and the same target alone, which knows nothing of views.
struct fixture {
  fixture(arithmetic kind, int threads, int context = 0, bool features = false)
      : target(shape, weights, options(kind, threads, context, features)),
        alone(shape, weights, options(kind, threads, context, features)),
        view({exit_layer}, test::in_memory(test::exit_tensors(shape, engine::dtype::i8)), target) {}

  static engine::model_options options(arithmetic kind, int threads, int context, bool features) {
    return {.kind = kind,
            .threads = threads,
            .max_batch = 3,
            .context = context,
            .keep_features = features};
  }

  /// Reads a prompt with both.
  void read(int slot, const std::vector<hunch::token>& tokens) {
    test::read(target, slot, tokens, 4);
    test::read(alone, slot, tokens, 4);
  }
  void keep(int slot, const std::vector<std::int32_t>& ids) {
    test::keep(target, slot, ids);
    test::keep(alone, slot, ids);
  }

  /// Evaluates `rows` with both: the logits must be equal, and the target must compute as many
  /// rows times layers as said.
  void check(const row_batch& rows, int layer_rows) {
    const std::uint64_t before = target.layer_rows();
    const auto got = target.evaluate(rows.view());
    CHECK(target.layer_rows() - before == static_cast<std::uint64_t>(layer_rows));
    const auto expected = alone.evaluate(rows.view());
    REQUIRE(got.size() == expected.size());
    for (int i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(got.status(i) == expected.status(i));
      if (got.status(i) == hunch::status::ok && rows.view().wanted[i] != 0) {
        CHECK(test::copy(got.logits(i)) == test::copy(expected.logits(i)));
      }
    }
  }

  engine::config shape = deep_config();
  engine::checkpoint weights = test::random_checkpoint(shape, engine::dtype::i8);
  engine::model target;
  engine::model alone;
  engine::early_exit view;
};

constexpr int all = all_layers;
constexpr int rest = all_layers - exit_layer;

template <class F>
void for_each_setting(F f) {
  for (const arithmetic kind : test::arithmetics()) {
    for (const int threads : {1, 2, 3}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(threads);
      f(kind, threads);
    }
  }
}

constexpr int end = hunch::end_of_cache;

/// What the textbook makes of the prompt.
test::vec exit_state(const test::reference_model& reference, const engine::config& c,
                     const engine::checkpoint& exit) {
  std::vector<int> positions(prompt.size());
  std::iota(positions.begin(), positions.end(), 0);
  test::vec h =
      reference.norm(exit, "exit.norm.weight",
                     reference.residual({prompt.begin(), prompt.end()}, positions, exit_layer));
  const auto inner = static_cast<int>(exit.get("exit.down.weight").shape[0]);
  test::vec a = test::reference_model::product(exit, "exit.down.weight", inner, h);
  for (double& v : a) { v = test::silu(v); }
  test::reference_model::add(h,
                             test::reference_model::product(exit, "exit.up.weight", c.hidden, a));
  return h;
}

}  // namespace

TEST_CASE("an exit says what the textbook says") {
  const engine::config c = deep_config();
  const auto weights = test::random_checkpoint(c);
  for (const int inner : {1, 9, 64}) {
    CAPTURE(inner);
    const auto exit = test::in_memory(test::exit_tensors(c, engine::dtype::f32, inner));
    engine::model target(c, weights, {.kind = arithmetic::f32});
    engine::early_exit view({exit_layer}, exit, target);
    CHECK(view.vocab_size() == c.vocab_size);
    CHECK(view.layers() == exit_layer);
    row_batch rows;
    rows.add_chain(0, 0, prompt);
    const auto states = view.forward(rows.view());
    const auto row = static_cast<std::int32_t>(prompt.size()) - 1;

    const test::reference_model reference(c, weights);
    const test::vec expected = exit_state(reference, c, exit);
    const auto got = states.hidden(row);
    REQUIRE(got.size == c.hidden);
    for (int k = 0; k < c.hidden; ++k) {
      CHECK(static_cast<double>(got.data[k]) ==
            doctest::Approx(expected[static_cast<std::size_t>(k)]).epsilon(1e-4));
    }

    const hunch::row_range range{7, 60};
    const auto layout = hunch::vocab_layout::identity(c.vocab_size);
    view.set_head_layout(layout);
    CHECK(view.head_order() == layout.order());
    CHECK(target.head_order() == layout.order());
    const auto list = layout.list(&range, 1);
    std::vector<float> logits(static_cast<std::size_t>(list.size));
    hunch::row_view<float> out{logits.data(), list.size};
    view.head(states, {1, &row, &list, &out});
    const test::vec full = reference.head(expected);
    for (int i = 0; i < list.size; ++i) {
      CHECK(static_cast<double>(logits[static_cast<std::size_t>(i)]) ==
            doctest::Approx(full[static_cast<std::size_t>(list.token_at(i))]).epsilon(1e-4));
    }
  }
}

TEST_CASE("what the view read the target does not read again") {
  for_each_setting([](arithmetic kind, int threads) {
    for (const bool features : {false, true}) {
      fixture with(kind, threads, 0, features);
      with.read(0, prompt);
      // Level by level, without the leaves.
      row_batch root;
      root.add(0, 0, end, 7, 3);
      row_batch children;
      children.add(0, 1, 0, 8, 4).add(0, 2, 0, 8, 5);
      const std::uint64_t before = with.target.layer_rows();
      with.view.forward(root.view());
      with.view.forward(children.view());
      CHECK(with.target.layer_rows() - before == 3 * exit_layer);
      with.check(tree(0, 7), 3 * rest + 3 * all);
      with.keep(0, {0, 2, 5});
      // The cache has the same keys and values in all layers.
      with.check(tree(0, 10), 6 * all);
      with.keep(0, {0, 1, 4});
      row_batch next;
      with.check(next.add(0, 0, end, 13, 9), all);
    }
  });
}

TEST_CASE("all rows, and none, from the view") {
  for_each_setting([](arithmetic kind, int threads) {
    fixture with(kind, threads);
    with.read(0, prompt);
    with.view.forward(tree(0, 7).view());
    with.check(tree(0, 7), 6 * rest);
    with.keep(0, {0, 1, 3});
    with.check(tree(0, 10), 6 * all);
    with.keep(0, {0});
    with.view.forward(tree(0, 11).view());
    with.check(tree(0, 11), 6 * rest);
  });
}

TEST_CASE("tokens that the target has not read yet come before the root") {
  for_each_setting([](arithmetic kind, int threads) {
    fixture with(kind, threads);
    row_batch drafted;
    drafted.add_chain(0, 0, prompt, false);
    with.view.forward(drafted.view());
    row_batch rows;
    rows.add_chain(0, 0, prompt, false);
    with.check(rows.add(0, 7, 6, 7, 1).add(0, 8, 6, 7, 2), 7 * rest + 2 * all);
    with.keep(0, {0, 1, 2, 3, 4, 5, 6, 8});
    with.check(tree(0, 8), 6 * all);
  });
}

TEST_CASE("a batch in which sequences are drafted to different depths") {
  for_each_setting([](arithmetic kind, int threads) {
    fixture with(kind, threads);
    with.read(0, prompt);
    with.read(1, {1, 2, 3});
    with.read(2, {4});
    row_batch drafted;
    drafted.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(2, 0, end, 1, 8);
    with.view.forward(drafted.view());
    row_batch more;
    more.add(2, 1, 0, 2, 9);
    with.view.forward(more.view());
    row_batch rows = tree(0, 7);
    rows.add(1, 0, end, 3, 5).add(1, 1, 0, 4, 6);
    rows.add(2, 0, end, 1, 8).add(2, 1, 0, 2, 9).add(2, 2, 1, 3, 9);
    with.check(rows, 4 * rest + 7 * all);
    with.keep(0, {0, 1});
    with.keep(1, {0});
    with.keep(2, {0, 1, 2});
    rows = tree(1, 4);
    with.check(rows.add(2, 0, end, 4, 8), 7 * all);
  });
}

TEST_CASE("rows of another token, position, parent or slot are computed anew, and all below them") {
  fixture with(arithmetic::f32, 1);
  with.read(0, prompt);
  const auto after_drafting = [&](const row_batch& rows, int layer_rows) {
    with.view.forward(tree(0, 7).view());
    with.check(rows, layer_rows);
  };
  row_batch token;  // node 1 is another: 3 and 4 are below it
  token.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 44).add(0, 2, 0, 8, 5);
  token.add(0, 3, 1, 9, 6).add(0, 4, 1, 9, 7).add(0, 5, 2, 9, 6);
  after_drafting(token, 3 * rest + 3 * all);

  row_batch position;
  position.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(0, 2, 0, 9, 5).add(0, 5, 2, 10, 6);
  after_drafting(position, 2 * rest + 2 * all);

  row_batch parent;
  parent.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(0, 2, 0, 8, 5).add(0, 3, 2, 9, 7);
  after_drafting(parent, 3 * rest + all);

  row_batch root;
  root.add(0, 0, end, 7, 2).add(0, 1, 0, 8, 4);
  after_drafting(root, 2 * all);

  row_batch slot;
  slot.add(1, 0, end, 7, 3);
  after_drafting(slot, all);
}

TEST_CASE("a tree that was cut and numbered anew is taken over all the same") {
  for_each_setting([](arithmetic kind, int threads) {
    fixture with(kind, threads);
    with.read(0, prompt);
    // The view reads the inner nodes alone, in the order in which it comes to them.
    row_batch drafted = tree(0, 7);
    drafted.add(0, 6, 5, 10, 2);
    with.view.forward(drafted.view());
    row_batch rows;
    rows.add(0, 0, end, 7, 3)
        .add(0, 1, 0, 8, 5)    // was 2
        .add(0, 2, 0, 8, 4)    // was 1
        .add(0, 3, 1, 9, 6)    // was 5
        .add(0, 4, 2, 9, 6)    // was 3, the same token elsewhere
        .add(0, 5, 3, 10, 2)   // was 6
        .add(0, 6, 4, 10, 2);  // new
    with.check(rows, 6 * rest + all);
    with.keep(0, {0, 1, 3, 5});
    with.check(tree(0, 11), 6 * all);
  });
}

TEST_CASE("of two equal rows each is taken over once") {
  fixture with(arithmetic::f32, 1);
  with.read(0, prompt);
  row_batch twins;
  twins.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(0, 2, 0, 8, 4).add(0, 3, 2, 9, 5);
  with.view.forward(twins.view());
  row_batch rows;
  rows.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(0, 2, 0, 8, 4).add(0, 3, 0, 8, 4);
  with.check(rows.add(0, 4, 2, 9, 5), 4 * rest + all);
}

TEST_CASE("a step of the target in several calls takes over in each") {
  fixture with(arithmetic::f32, 2);
  with.read(0, prompt);
  with.view.forward(tree(0, 7).view());
  row_batch first;
  with.check(first.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4), 2 * rest);
  row_batch second;
  with.check(second.add(0, 3, 1, 9, 6).add(0, 4, 1, 9, 8).add(0, 6, 3, 10, 1), rest + 2 * all);
  with.keep(0, {0, 1, 3, 6});
  with.check(tree(0, 11), 6 * all);
}

TEST_CASE("a step is offered once") {
  fixture with(arithmetic::f32, 1);
  with.read(0, prompt);
  // The view begins anew.
  with.view.forward(tree(0, 7).view());
  row_batch root;
  root.add(0, 0, end, 7, 3);
  with.view.forward(root.view());
  with.check(tree(0, 7), rest + 5 * all);
  // So does the target: what it did not take over then is gone.
  with.check(tree(0, 7), 6 * all);
  with.view.forward(tree(0, 7).view());
  with.check(root, rest);
  with.check(tree(0, 7), 6 * all);
  // A commit without an evaluation keeps nothing of the view's.
  with.view.forward(tree(0, 7).view());
  test::keep(with.target, 0, {0, 1});
  CHECK(with.target.length(0) == 7);
  with.check(tree(0, 7), 6 * all);
}

TEST_CASE("a step that is cancelled between drafting and evaluation") {
  fixture with(arithmetic::bf16_fma, 2);
  with.read(0, prompt);
  with.read(1, prompt);
  row_batch drafted = tree(0, 7);
  drafted.add(1, 0, end, 7, 3).add(1, 1, 0, 8, 4);
  with.view.forward(drafted.view());
  test::release(with.target, 0);
  test::release(with.alone, 0);
  CHECK(with.target.length(0) == 0);
  row_batch rows;
  rows.add(0, 0, end, 7, 3).add(1, 0, end, 7, 3).add(1, 1, 0, 8, 4);
  with.check(rows, all + 2 * rest);
  with.keep(0, {0});
  with.keep(1, {0, 1});
  // The view is thrown out of a step, and the next one is not drafted.
  with.view.forward(tree(1, 9).view());
  row_batch next;
  with.check(next.add(1, 0, end, 9, 5), all);
}

TEST_CASE("an early exit without room") {
  fixture with(arithmetic::f32, 2, 9);
  with.read(0, prompt);
  const auto states = with.view.forward(tree(0, 7).view());
  for (int i = 0; i < 6; ++i) {
    CHECK((states.status(i) == hunch::status::ok) == (i < 3));
    if (i >= 3) { CHECK_THROWS_AS(states.hidden(i), std::out_of_range); }
  }
  const auto got = with.target.evaluate(tree(0, 7).view());
  const auto expected = with.alone.evaluate(tree(0, 7).view());
  for (int i = 0; i < 6; ++i) {
    CHECK(got.status(i) == expected.status(i));
    if (i < 3) { CHECK(test::copy(got.logits(i)) == test::copy(expected.logits(i))); }
  }
  with.keep(0, {0, 1, 3});
  CHECK(with.target.length(0) == 9);
  row_batch more;
  more.add(0, 0, end, 9, 1);
  CHECK(with.view.forward(more.view()).status(0) == hunch::status::cache_full);
  // A sibling of the first full row would fit, but comes later.
  fixture other(arithmetic::f32, 1, 9);
  other.read(0, prompt);
  row_batch fits;
  other.view.forward(fits.add(0, 0, end, 7, 3).add(0, 2, 0, 8, 5).view());
  row_batch deep;
  deep.add(0, 0, end, 7, 3).add(0, 1, end, 9, 4).add(0, 2, 0, 8, 5);
  CHECK(other.target.evaluate(deep.view()).status(2) == hunch::status::cache_full);
  other.keep(0, {0, 2});
  CHECK(other.target.length(0) == 8);
  // What had no room was not computed, though the target has room for it.
  fixture last(arithmetic::f32, 1, 9);
  last.read(0, prompt);
  CHECK(last.view.forward(deep.view()).status(2) == hunch::status::cache_full);
  row_batch without;
  last.check(without.add(0, 0, end, 7, 3).add(0, 2, 0, 8, 5), rest + all);
}

TEST_CASE("two views of one target") {
  fixture with(arithmetic::f32, 2);
  engine::early_exit deeper(
      {4}, test::in_memory(test::exit_tensors(with.shape, engine::dtype::f32)), with.target);
  with.read(0, prompt);
  with.view.forward(tree(0, 7).view());
  row_batch three;
  three.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 4).add(0, 2, 0, 8, 5);
  const std::uint64_t before = with.target.layer_rows();
  const auto states = deeper.forward(three.view());
  CHECK(with.target.layer_rows() - before == 3 * 2);
  const auto got =
      test::copy(hunch::row_view<const float>{states.hidden(2).data, with.shape.hidden});
  with.check(tree(0, 7), 3 * 1 + 3 * 3);

  engine::model fresh(with.shape, with.weights, {.kind = arithmetic::f32});
  engine::early_exit same({4}, test::in_memory(test::exit_tensors(with.shape, engine::dtype::f32)),
                          fresh);
  test::read(fresh, 0, prompt, 7);
  const auto expected = same.forward(three.view()).hidden(2);
  CHECK(std::equal(got.begin(), got.end(), expected.data));
}

TEST_CASE("states of the view in any company") {
  for_each_setting([](arithmetic kind, int threads) {
    fixture one(kind, 1);
    fixture with(kind, threads);
    one.read(0, prompt);
    with.read(0, prompt);
    with.read(1, {1, 2});
    row_batch rows = tree(0, 7);
    const auto together = with.view.forward(rows.add(1, 0, end, 2, 5).view());
    const row_batch whole = tree(0, 7);
    for (int i = 0; i < 6; ++i) {
      row_batch level;
      level.add(0, i, whole.view().parent[i], whole.view().position[i], whole.view().tokens[i]);
      const auto alone = one.view.forward(level.view()).hidden(0);
      const auto got = together.hidden(i);
      CHECK(std::equal(got.data, got.data + got.size, alone.data));
      CHECK(one.view.context_width() == got.size);
      CHECK(together.context(i) == got.data);  // a router reads what the head reads
    }
  });
}

TEST_CASE("exits that do not fit are refused") {
  const engine::config c = deep_config();
  const auto weights = test::random_checkpoint(c);
  engine::model target(c, weights, {.kind = arithmetic::f32});
  const auto tensors = test::exit_tensors(c, engine::dtype::f32);
  const auto complaint = [&](int layer, const std::vector<test::stored_tensor>& with) {
    try {
      engine::early_exit view({layer}, test::in_memory(with), target);
    } catch (const std::exception& error) { return std::string(error.what()); }
    return std::string();
  };
  const auto says = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  CHECK(complaint(exit_layer, tensors).empty());
  CHECK(says(complaint(0, tensors), "layer 0"));
  CHECK(says(complaint(all_layers, tensors), "layer 5"));
  for (std::size_t missing = 0; missing < tensors.size(); ++missing) {
    auto some = tensors;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(missing));
    CHECK(says(complaint(exit_layer, some), tensors[missing].name.c_str()));
  }
  auto other = test::exit_tensors(c, engine::dtype::f32, 8);
  other[2] = tensors[2];
  CHECK(says(complaint(exit_layer, other), "exit.up.weight"));
}

}  // namespace early_exit_test

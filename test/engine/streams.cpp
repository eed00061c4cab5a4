// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/early_exit.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "copy.hpp"
#include "reference.hpp"
#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// Speculative streams beside the rows of a target.

namespace streams_test {
namespace {

using engine::arithmetic;
using test::prompt;
using test::row_batch;
using test::tree;

constexpr int streams = test::tiny_streams;
constexpr int end = hunch::end_of_cache;

engine::config deep(engine::config c) {
  c.layers = 5;
  return c;
}

engine::stream_config shape_of(const engine::config& c, int layers, bool linear_map = false) {
  return {streams, layers, c.hidden, c.vocab_size, linear_map};
}

hunch::rows with_streams(const row_batch& rows, int count) {
  hunch::rows out = rows.view();
  out.streams = count;
  return out;
}

/// Of one row: its logits, and its streams.
struct seen {
  std::vector<float> logits;
  std::vector<std::vector<float>> of_streams;

  seen(const engine::evaluation& e, int row, int count) : logits{test::copy(e.logits(row))} {
    for (int j = 0; j < count; ++j) { of_streams.push_back(test::copy(e.stream(row, j))); }
  }
  friend bool operator==(const seen&, const seen&) = default;
};

std::vector<arithmetic> arithmetics() {
  std::vector<arithmetic> out{arithmetic::f32, arithmetic::bf16_fma};
  if (engine::has_bf16_dot()) { out.push_back(arithmetic::bf16_dot); }
  return out;
}

}  // namespace

TEST_CASE("streams say what the textbook says, along any path") {
  for (const engine::config& c : {deep(test::tiny_config()), deep(test::small_config())}) {
    for (const int layers : {1, 3}) {
      CAPTURE(c.hidden);
      CAPTURE(layers);
      const bool published = layers == 3;  // one linear map of the row for all streams
      const auto weights = test::random_checkpoint(c);
      const auto own = test::in_memory(
          test::stream_tensors(c, layers, engine::dtype::f32, !published, 5, published));
      engine::model target(c, weights, {.kind = arithmetic::f32});
      engine::speculative_streams beside(shape_of(c, layers, published), own, target);
      CHECK(beside.heads() == streams);
      CHECK(beside.hidden_size() == c.hidden);
      CHECK(beside.vocab_size() == c.vocab_size);
      CHECK(beside.layers() == layers);
      test::read(target, 0, prompt, 3);
      const auto e = target.evaluate(with_streams(tree(0, 7), streams));
      const test::reference_model reference(c, weights);
      const std::vector<std::vector<int>> paths{{3},       {3, 4},    {3, 5},
                                                {3, 4, 6}, {3, 4, 7}, {3, 5, 6}};
      for (int row = 0; row < 6; ++row) {
        CAPTURE(row);
        std::vector<int> tokens(prompt.begin(), prompt.end());
        const auto& path = paths[static_cast<std::size_t>(row)];
        tokens.insert(tokens.end(), path.begin(), path.end());
        std::vector<int> positions(tokens.size());
        std::iota(positions.begin(), positions.end(), 0);
        const auto expected = reference.streams(own, streams, layers, tokens, positions, published);
        for (int j = 0; j < streams; ++j) {
          const auto got = e.stream(row, j);
          REQUIRE(got.size == c.hidden);
          double error = 0.0;
          for (int k = 0; k < c.hidden; ++k) {
            const double want = expected[static_cast<std::size_t>(j)][static_cast<std::size_t>(k)];
            error = std::max(error, std::fabs(static_cast<double>(got.data[k]) - want));
          }
          CHECK(error < 2e-4);
        }
      }
    }
  }
}

/// States of streams for inputs, side by side.
struct stream_inputs {
  std::vector<std::vector<float>> states;
  std::vector<const float*> pointers;
  std::vector<hunch::token> roots;
  int each = 0;

  void add(const engine::evaluation& e, int row, int count, hunch::token root) {
    each = count;
    states.emplace_back();
    for (int j = 0; j < count; ++j) {
      const auto state = e.stream(row, j);
      states.back().insert(states.back().end(), state.data, state.data + state.size);
    }
    roots.push_back(root);
  }
  hunch::head_inputs view() {
    pointers.clear();
    for (const auto& of : states) { pointers.push_back(of.data()); }
    return {static_cast<std::int32_t>(states.size()), pointers.data(), roots.data(), each};
  }
};

TEST_CASE("what is drafted from are streams that know the root, or as they are") {
  for (const engine::config& c : {deep(test::tiny_config()), deep(test::small_config())}) {
    for (const bool told : {false, true}) {
      CAPTURE(c.hidden);
      CAPTURE(told);
      const auto weights = test::random_checkpoint(c);
      const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::f32, told));
      engine::model target(c, weights, {.kind = arithmetic::f32});
      engine::speculative_streams beside(shape_of(c, 2), own, target);
      test::read(target, 0, prompt, 3);
      const auto e = target.evaluate(with_streams(tree(0, 7), 2));
      stream_inputs inputs;
      for (const int row : {1, 4}) { inputs.add(e, row, 2, 9 + row); }
      const engine::drafted_states drafted = beside.forward(inputs.view());
      CHECK(drafted.size == 2 * streams);

      const auto layout = hunch::vocab_layout::identity(c.vocab_size);
      beside.set_head_layout(layout);
      CHECK(beside.head_order() == layout.order());
      const hunch::row_range range{7, 60};
      const auto list = layout.list(&range, 1);
      std::vector<float> logits(static_cast<std::size_t>(list.size));
      hunch::row_view<float> out{logits.data(), list.size};
      const test::reference_model reference(c, weights);
      double changed = 0.0;
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
          const float* const from =
              inputs.states[static_cast<std::size_t>(i)].data() + j * c.hidden;
          const test::vec state(from, from + c.hidden);
          const test::vec want =
              reference.told(own, streams, j, state, inputs.roots[static_cast<std::size_t>(i)]);
          const std::int32_t row = i * streams + j;
          const auto got = drafted.hidden(row);
          REQUIRE(got.size == c.hidden);
          CHECK(drafted.context(row) == got.data);
          double error = 0.0;
          for (int k = 0; k < c.hidden; ++k) {
            const auto at = static_cast<std::size_t>(k);
            error = std::max(error, std::fabs(static_cast<double>(got[k]) - want[at]));
            changed = std::max(changed, std::fabs(want[at] - state[at]));
          }
          CHECK(error < 2e-4);
          beside.head(drafted, {1, &row, &list, &out});
          const test::vec full = reference.head(want);
          for (int v = 0; v < list.size; ++v) {
            CHECK(static_cast<double>(logits[static_cast<std::size_t>(v)]) ==
                  doctest::Approx(full[static_cast<std::size_t>(list.token_at(v))]).epsilon(1e-3));
          }
        }
      }
      CHECK((changed > 0.01) == told);

      const std::int32_t beyond = 2 * streams;
      CHECK_THROWS_AS(beside.head(drafted, {1, &beyond, &list, &out}), std::out_of_range);
      inputs.roots[1] = c.vocab_size;
      CHECK_THROWS_AS(beside.forward(inputs.view()), std::out_of_range);
      inputs.roots[1] = 0;
      inputs.each = streams + 1;
      CHECK_THROWS_AS(beside.forward(inputs.view()), std::invalid_argument);
    }
  }
}

TEST_CASE("what is drafted from is the same in any company") {
  const engine::config c = deep(test::small_config());
  const auto weights = test::random_checkpoint(c, engine::dtype::i8);
  const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::i8));
  for (const arithmetic kind : arithmetics()) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      engine::model target(c, weights, {.kind = kind, .threads = threads});
      engine::speculative_streams beside(shape_of(c, 2), own, target);
      test::read(target, 0, prompt, 3);
      const auto e = target.evaluate(with_streams(tree(0, 7), streams));
      stream_inputs all;
      for (int row = 0; row < 6; ++row) { all.add(e, row, streams, 5 * row); }
      std::vector<float> together;
      const auto note = [&](const engine::drafted_states& of, std::vector<float>& to) {
        for (int row = 0; row < of.size; ++row) {
          const auto state = of.hidden(row);
          to.insert(to.end(), state.data, state.data + state.size);
        }
      };
      note(beside.forward(all.view()), together);
      std::vector<float> alone;
      for (int row = 0; row < 6; ++row) {
        stream_inputs one;
        one.add(e, row, streams, 5 * row);
        note(beside.forward(one.view()), alone);
      }
      CHECK(alone == together);
      if (first.empty()) { first = together; }
      CHECK(together == first);
    }
  }
}

TEST_CASE("rows do not see streams, and streams are the same in any company") {
  for (const engine::config& c : {deep(test::tiny_config()), deep(test::small_config())}) {
    const auto weights = test::random_checkpoint(c, engine::dtype::i8);
    const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::i8));
    for (const arithmetic kind : arithmetics()) {
      std::vector<seen> first;
      for (const int threads : {1, 2, 3}) {
        CAPTURE(c.hidden);
        CAPTURE(static_cast<int>(kind));
        CAPTURE(threads);
        const engine::model_options options{.kind = kind, .threads = threads, .max_batch = 3};
        engine::model target(c, weights, options);
        engine::model alone(c, weights, options);
        engine::speculative_streams beside(shape_of(c, 2), own, target);
        for (const int slot : {0, 2}) {
          test::read(target, slot, prompt, 4);
          test::read(alone, slot, prompt, 4);
        }
        // Two trees in a batch, one after a token that was not read, and what the target says
        // without streams.
        row_batch rows = tree(2, 7);
        rows.add(0, 0, end, 7, 9, false).add(0, 1, 0, 8, 3).add(0, 2, 1, 9, 4);
        const auto expected = alone.evaluate(rows.view());
        const auto got = target.evaluate(with_streams(rows, streams));
        REQUIRE(got.size() == expected.size());
        std::vector<seen> all;
        for (const int row : {0, 1, 2, 3, 4, 5, 7, 8}) {
          CAPTURE(row);
          CHECK(test::copy(got.logits(row)) == test::copy(expected.logits(row)));
          all.emplace_back(got, row, streams);
        }
        // A path alone, and fewer streams.
        row_batch path;
        path.add(2, 0, end, 7, 3).add(2, 1, 0, 8, 5).add(2, 2, 1, 9, 6);
        const auto by_path = target.evaluate(with_streams(path, streams));
        CHECK(seen(by_path, 2, streams) == all[5]);
        CHECK(seen(by_path, 1, streams) == all[2]);
        const auto fewer = target.evaluate(with_streams(path, 1));
        CHECK(test::copy(fewer.stream(2, 0)) == all[5].of_streams[0]);
        CHECK_THROWS_AS(fewer.stream(2, 1), std::out_of_range);
        // With any number of threads.
        if (threads == 1) { first = all; }
        CHECK(all == first);
        // What is cached does not depend on streams.
        target.evaluate(with_streams(path, streams));
        alone.evaluate(path.view());
        test::keep(target, 2, {0, 1, 2});
        test::keep(alone, 2, {0, 1, 2});
        CHECK(target.length(2) == alone.length(2));
        const auto after = target.evaluate(with_streams(tree(2, 10), 2));
        const auto without = alone.evaluate(tree(2, 10).view());
        for (int row = 0; row < 6; ++row) {
          CHECK(test::copy(after.logits(row)) == test::copy(without.logits(row)));
        }
      }
    }
  }
}

TEST_CASE("streams after rows whose first layers a view has read") {
  const engine::config c = deep(test::tiny_config());
  const auto weights = test::random_checkpoint(c, engine::dtype::i8);
  const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::i8));
  std::vector<test::stored_tensor> exit;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, float value) {
    std::size_t size = 1;
    for (const std::int64_t s : shape) { size *= static_cast<std::size_t>(s); }
    for (auto& t : test::encode(name, std::vector<float>(size, value), shape, engine::dtype::f32)) {
      exit.push_back(t);
    }
  };
  add("exit.norm.weight", {c.hidden}, 1.0f);
  add("exit.down.weight", {2, c.hidden}, 0.1f);
  add("exit.up.weight", {c.hidden, 2}, 0.1f);
  for (const int threads : {1, 2}) {
    engine::model target(c, weights, {.threads = threads});
    engine::model alone(c, weights, {.threads = threads});
    engine::speculative_streams beside(shape_of(c, 2), own, target);
    engine::speculative_streams beside_alone(shape_of(c, 2), own, alone);
    test::read(target, 0, prompt, 4);
    test::read(alone, 0, prompt, 4);
    for (const int layer : {2, 3}) {  // below the streams, and where they begin
      CAPTURE(layer);
      engine::early_exit view({layer}, test::in_memory(exit), target);
      view.forward(tree(0, 7).view());
      row_batch pruned;
      pruned.add(0, 0, end, 7, 3).add(0, 1, 0, 8, 5).add(0, 2, 1, 9, 6);
      const std::uint64_t before = target.layer_rows();
      const auto got = target.evaluate(with_streams(pruned, streams));
      CHECK(target.layer_rows() - before ==
            static_cast<std::uint64_t>(3 * (c.layers - layer) + 3 * streams * 2));
      const auto expected = alone.evaluate(with_streams(pruned, streams));
      for (int row = 0; row < 3; ++row) {
        CHECK(seen(got, row, streams) == seen(expected, row, streams));
      }
    }
    // After where streams begin their first state would not be known.
    engine::early_exit deep_view({4}, test::in_memory(exit), target);
    deep_view.forward(tree(0, 7).view());
    CHECK_THROWS_AS(target.evaluate(with_streams(tree(0, 7), streams)), std::invalid_argument);
  }
}

TEST_CASE("streams at the end of the context") {
  const engine::config c = deep(test::tiny_config());
  const auto weights = test::random_checkpoint(c);
  const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::f32));
  engine::model target(c, weights, {.context = 16});
  engine::model longer(c, weights, {.context = 64});
  engine::speculative_streams beside(shape_of(c, 2), own, target);
  engine::speculative_streams beside_longer(shape_of(c, 2), own, longer);
  const auto text = test::some_tokens(14, c.vocab_size);
  test::read(target, 0, text, 5);
  test::read(longer, 0, text, 5);
  row_batch rows;
  rows.add_chain(0, 14, {1, 2, 3});  // the last one has no room
  const auto got = target.evaluate(with_streams(rows, streams));
  const auto expected = longer.evaluate(with_streams(rows, streams));
  CHECK(got.status(1) == hunch::status::ok);
  CHECK(got.status(2) == hunch::status::cache_full);
  CHECK_THROWS_AS(got.stream(2, 0), std::out_of_range);
  // The same until positions after the end are asked for, which count as the last one.
  CHECK(test::copy(got.stream(0, 0)) == test::copy(expected.stream(0, 0)));
  CHECK(test::copy(got.stream(0, 1)) != test::copy(expected.stream(0, 1)));
  for (int j = 0; j < streams; ++j) {
    const auto state = got.stream(1, j);
    CHECK(
        std::all_of(state.data, state.data + state.size, [](float v) { return std::isfinite(v); }));
  }
}

TEST_CASE("streams that do not fit are refused") {
  const engine::config c = deep(test::tiny_config());
  const auto weights = test::random_checkpoint(c);
  const auto own = test::in_memory(test::stream_tensors(c, 2, engine::dtype::f32));
  engine::model target(c, weights);
  const auto make = [&](engine::stream_config shape) {
    return engine::speculative_streams(shape, own, target);
  };
  CHECK_THROWS_AS(make({0, 2, c.hidden, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make({9, 2, c.hidden, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make({streams, 5, c.hidden, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make({streams, 0, c.hidden, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make({streams, 2, c.hidden + 1, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make({streams, 2, c.hidden, c.vocab_size + 1}), std::invalid_argument);
  CHECK_THROWS_AS(make({streams, 3, c.hidden, c.vocab_size}),
                  std::runtime_error);  // no third layer
  CHECK_THROWS_AS(make({streams + 1, 2, c.hidden, c.vocab_size}), std::runtime_error);
  row_batch rows;
  rows.add(0, 0, end, 0, 1);
  CHECK_THROWS_AS(target.evaluate(with_streams(rows, 1)), std::invalid_argument);
  {
    engine::speculative_streams beside = make(shape_of(c, 2));
    CHECK_THROWS_AS(make(shape_of(c, 2)), std::invalid_argument);  // it has some
    engine::speculative_streams moved = std::move(beside);
    CHECK_NOTHROW(target.evaluate(with_streams(rows, streams)));
    CHECK_THROWS_AS(target.evaluate(with_streams(rows, streams + 1)), std::invalid_argument);
  }
  CHECK_THROWS_AS(target.evaluate(with_streams(rows, 1)), std::invalid_argument);
}

}  // namespace streams_test

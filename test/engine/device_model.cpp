// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/device/int4_multiply.hpp>
#include <engine/device/model.hpp>
#include <engine/model.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/team/simulated.hpp>

#include "closeness.hpp"
#include "team_host.hpp"
#include "tiny_model.hpp"

/// The engine on an executor says what the engine on the CPU says, up to what bfloat16 rounds away;
/// and a row says the same, bit for bit, wherever it stands and whoever computes it.

namespace device_model_test {
namespace {

using engine::device_options;
using model = engine::device_model<hunch::executor::host>;

template <class Evaluation>
std::vector<std::vector<float>> rows_of(const Evaluation& e, int count) {
  std::vector<std::vector<float>> out;
  for (int i = 0; i < count; ++i) {
    REQUIRE(e.status(i) == hunch::status::ok);
    out.push_back(test::copy(e.logits(i)));
  }
  return out;
}

/// The largest difference over the rows of a tree, with a gap of `gap` positions before its last
/// row in the model under test.
double tree_difference(const engine::config& c, const engine::checkpoint& weights, int gap = 0) {
  engine::model expected(c, weights, {.kind = engine::arithmetic::f32});
  model got(c, weights, {.max_rows = 64, .max_staged = 64});
  const std::vector<hunch::token> text = test::some_tokens(60, c.vocab_size);
  const std::vector<hunch::token> prefix(text.begin(), text.begin() + 33);
  test::read(expected, 0, prefix, 33);
  test::read(got, 0, prefix, 33);
  const auto tree = [&](int last) {
    test::row_batch rows;
    rows.add(0, 0, hunch::end_of_cache, 33, text[33]);
    rows.add(0, 1, 0, 34, text[34]).add(0, 2, 0, 34, text[35]).add(0, 3, 1, 35, text[36]);
    rows.add(0, 4, 2, 35, text[37]).add(0, 5, 4, 36 + last, text[38]);
    return rows;
  };
  const test::row_batch right = tree(0);
  const test::row_batch given = tree(gap);
  const auto a = rows_of(expected.evaluate(right.view()), 6);
  const auto b = rows_of(got.evaluate(given.view()), 6);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, test::difference(b[i], a[i]));
  }
  return worst;
}

struct fixture {
  engine::config shape = test::tiny_config();
  engine::checkpoint weights = test::random_checkpoint(shape);
  std::vector<hunch::token> text = test::some_tokens(40, shape.vocab_size);

  model make(int max_length = 0) const {
    return {shape,
            weights,
            {.max_batch = 3, .max_length = max_length, .max_rows = 32, .max_staged = 32}};
  }
  std::vector<hunch::token> part(int begin, int end) const {
    return {text.begin() + begin, text.begin() + end};
  }
  /// The logits after text[0 .. size) in a model that has seen nothing else.
  std::vector<float> after(int size) const {
    model m = make();
    test::row_batch rows;
    rows.add_chain(0, 0, part(0, size));
    return test::copy(m.evaluate(rows.view()).logits(size - 1));
  }
  /// The logits after one more token.
  std::vector<float> next(model& m, int slot, int position) const {
    test::row_batch row;
    row.add(slot, 0, hunch::end_of_cache, position, text[static_cast<std::size_t>(position)]);
    return test::copy(m.evaluate(row.view()).logits(0));
  }
};

}  // namespace

TEST_CASE("device model: logits are the engine's up to bfloat16") {
  using engine::dtype;
  for (const int kv_heads : {1, 2, 6}) {
    CAPTURE(kv_heads);
    engine::config c = test::tiny_config();
    c.kv_heads = kv_heads;
    c.tied_head = kv_heads == 2;
    CHECK(tree_difference(c, test::random_checkpoint(c, dtype::bf16)) < test::bf16_tolerance);
  }
  engine::config c = test::small_config();
  for (const dtype type : {dtype::f32, dtype::i8}) {
    CHECK(tree_difference(c, test::random_checkpoint(c, type)) < test::bf16_tolerance);
  }
  c.rope.kind = engine::rope_config::scaling::linear;
  c.rope.factor = 4;
  const auto weights = test::random_checkpoint(c, dtype::bf16);
  CHECK(tree_difference(c, weights) < test::bf16_tolerance);
  // The comparison can fail.
  CHECK(tree_difference(test::tiny_config(), test::random_checkpoint(test::tiny_config()), 1) >
        2 * test::bf16_tolerance);
}

TEST_CASE("device model: biases of queries, keys and values, and norms of their heads") {
  const engine::config without = test::tiny_config();
  for (bool engine::config::*const part : {&engine::config::qkv_bias, &engine::config::qk_norm}) {
    engine::config c = without;
    c.*part = true;
    const engine::checkpoint weights = test::random_checkpoint(c);
    CHECK(tree_difference(c, weights) < test::bf16_tolerance);

    // They change something.
    const auto last = [&](const engine::config& of, auto executor) {
      engine::device_model m(of, weights, {.max_rows = 8, .max_staged = 8}, executor);
      test::row_batch rows;
      rows.add_chain(0, 0, test::some_tokens(6, c.vocab_size));
      return test::copy(m.evaluate(rows.view()).logits(5));
    };
    const auto alone = last(c, hunch::executor::host{});
    CHECK(test::difference(last(without, hunch::executor::host{}), alone) >
          2 * test::bf16_tolerance);
    CHECK(last(c, test::team_host<3>{}) == alone);
    engine::checkpoint missing = test::random_checkpoint(without);
    CHECK_THROWS_AS(model(c, missing), std::runtime_error);
  }
}

TEST_CASE("device model: the shipped draft model") {
  const auto directory = std::filesystem::path(HUNCH_TEST_MODELS) / "draft";
  engine::model expected = engine::model::load(directory, {.kind = engine::arithmetic::f32});
  model got = model::load(directory, {.max_length = 64, .max_rows = 32, .max_staged = 32});
  const std::vector<hunch::token> text = test::some_tokens(24, expected.vocab_size());
  test::row_batch rows;
  rows.add_chain(0, 0, text);
  const auto a = rows_of(expected.evaluate(rows.view()), 24);
  const auto b = rows_of(got.evaluate(rows.view()), 24);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(test::difference(b[i], a[i]) < test::bf16_tolerance);
  }
  CHECK(test::difference(b[5], a[6]) > 2 * test::bf16_tolerance);
}

TEST_CASE("device model: prompts in pieces, batches with padding, trees") {
  const fixture with;
  for (const int piece : {1, 3, 20}) {
    CAPTURE(piece);
    model m = with.make();
    test::read(m, 1, with.part(0, 20), piece);
    CHECK(m.length(1) == 20);
    CHECK(with.next(m, 1, 20) == with.after(21));
  }

  model m = with.make();
  test::read(m, 0, with.part(0, 10), 10);
  test::read(m, 2, with.part(0, 4), 4);
  constexpr int pad = hunch::no_slot;
  test::row_batch rows;
  rows.add(pad, -9, 77, -1, -1).add(0, 0, hunch::end_of_cache, 10, with.text[10]);
  rows.add(0, 1, 0, 11, 3).add(0, 2, 0, 11, with.text[11]).add(0, 3, 1, 12, 5);
  rows.add(0, 4, 2, 12, with.text[12]).add(pad, 1 << 30, -5, 1 << 30, 1 << 30);
  rows.add(2, 0, hunch::end_of_cache, 4, with.text[4]).add(pad, 0, 0, 0, 0);
  const auto result = m.evaluate(rows.view());
  for (int i = 0; i < 9; ++i) { CHECK(result.status(i) == hunch::status::ok); }
  CHECK(test::copy(result.logits(1)) == with.after(11));
  CHECK(test::copy(result.logits(3)) == with.after(12));
  CHECK(test::copy(result.logits(5)) == with.after(13));
  CHECK(test::copy(result.logits(7)) == with.after(5));
  CHECK(test::copy(result.logits(4)) != with.after(13));

  // A path that is not contiguous, between padding.
  const std::vector<std::int32_t> sequence{pad, 0, 0, 0, pad, 2, pad};
  const std::vector<std::int32_t> id{7, 0, 2, 4, -1, 0, 0};
  const std::vector<std::int32_t> released{pad, pad};
  m.commit({7, sequence.data(), id.data(), 2, released.data()});
  CHECK(m.length(0) == 13);
  CHECK(m.length(1) == 0);
  CHECK(m.length(2) == 5);
  CHECK(with.next(m, 0, 13) == with.after(14));
  CHECK(with.next(m, 2, 5) == with.after(6));
}

TEST_CASE("device model: a step in several calls, and one that is abandoned") {
  const fixture with;
  model m = with.make();
  test::read(m, 0, with.part(0, 4), 4);
  test::row_batch wrong;
  wrong.add_chain(0, 4, {70, 71, 72, 73, 74});
  m.evaluate(wrong.view());
  CHECK(with.next(m, 0, 4) == with.after(5));
  // A kept id that only the abandoned step had is passed over.
  test::keep(m, 0, {0, 3});
  CHECK(m.length(0) == 5);

  test::row_batch first;
  first.add(0, 0, hunch::end_of_cache, 5, with.text[5]).add(0, 5, 0, 6, 1);
  m.evaluate(first.view());
  test::row_batch second;
  second.add(0, 6, 0, 6, with.text[6]).add(0, 9, 6, 7, with.text[7]);
  CHECK(test::copy(m.evaluate(second.view()).logits(1)) == with.after(8));
  test::keep(m, 0, {0, 6, 9});
  CHECK(m.length(0) == 8);
  CHECK(with.next(m, 0, 8) == with.after(9));
}

TEST_CASE("device model: slots are released and used again") {
  const fixture with;
  model m = with.make();
  test::row_batch rows;
  rows.add_chain(0, 0, with.part(0, 3)).add_chain(1, 0, with.part(0, 2));
  m.evaluate(rows.view());
  const std::vector<std::int32_t> sequence{0, 0, 0, 1, 1};
  const std::vector<std::int32_t> id{0, 1, 2, 0, 1};
  const std::int32_t released = 1;
  m.commit({5, sequence.data(), id.data(), 1, &released});
  CHECK(m.length(0) == 3);
  CHECK(m.length(1) == 0);
  CHECK(with.next(m, 1, 0) == with.after(1));
  test::keep(m, 1, {0});
  CHECK(with.next(m, 1, 1) == with.after(2));
  CHECK(with.next(m, 0, 3) == with.after(4));

  m.evaluate(rows.view());  // what is staged goes with its slot
  test::release(m, 0);
  test::keep(m, 0, {0, 1});
  CHECK(m.length(0) == 0);

  const std::vector<std::int32_t> nonsense{0, 9, -1};
  const std::vector<std::int32_t> ids{-5, 0, 1 << 30};
  const std::int32_t nobody = 17;
  m.commit({3, nonsense.data(), ids.data(), 1, &nobody});
  CHECK(m.length(0) == 0);
}

TEST_CASE("device model: a full cache is data") {
  const fixture with;
  model m = with.make(12);
  test::read(m, 0, with.part(0, 10), 4);
  test::read(m, 1, with.part(0, 5), 5);
  test::row_batch rows;
  rows.add(0, 0, hunch::end_of_cache, 10, with.text[10]).add(0, 1, 0, 11, with.text[11]);
  rows.add(0, 2, 1, 12, with.text[12]).add(0, 3, 0, 11, 5);
  rows.add(1, 0, hunch::end_of_cache, 5, with.text[5]).add(9, 0, hunch::end_of_cache, 0, 1);
  const auto result = m.evaluate(rows.view());
  CHECK(test::copy(result.logits(1)) == with.after(12));
  CHECK(result.status(2) == hunch::status::cache_full);
  CHECK(result.status(3) == hunch::status::cache_full);
  CHECK(test::copy(result.logits(4)) == with.after(6));
  CHECK(result.status(5) == hunch::status::cache_full);
  test::keep(m, 0, {0, 1, 2, 3});
  CHECK(m.length(0) == 12);
  test::row_batch unknown;  // a parent that was never staged, an id beyond the staged ones
  unknown.add(1, 0, 5, 5, 1).add(2, 40, hunch::end_of_cache, 0, 1);
  const auto refused = m.evaluate(unknown.view());
  CHECK(refused.status(0) == hunch::status::cache_full);
  CHECK(refused.status(1) == hunch::status::cache_full);
}

TEST_CASE("device model: rows after those that may have logits") {
  const fixture with;
  model m(with.shape, with.weights, {.max_rows = 8, .max_staged = 8, .max_outputs = 2});
  test::row_batch rows;
  rows.add_chain(0, 0, with.part(0, 2)).add(0, 2, 1, 2, with.text[2], false);
  const auto result = m.evaluate(rows.view());
  CHECK(result.status(2) == hunch::status::ok);
  CHECK(test::copy(result.logits(1)) == with.after(2));
  rows.add(0, 3, 2, 3, 1, true);
  CHECK(m.evaluate(rows.view()).status(3) == hunch::status::cache_full);
  CHECK_THROWS_AS(m.evaluate(test::row_batch().add_chain(0, 0, with.part(0, 9)).view()),
                  std::invalid_argument);
  m.evaluate(hunch::rows{});
  m.commit(hunch::kept_rows{});
  const auto make = [&](device_options o) { model(with.shape, with.weights, o); };
  CHECK_THROWS_AS(make({.max_batch = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_length = -1}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_length = 129}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_rows = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_staged = 0}), std::invalid_argument);
}

namespace {

/// The logits of rows 1 and 3 of a pass over some shortlists, by the head of a draft model, and
/// all logits of the same rows.
template <class Model>
std::vector<std::vector<float>> shortlist_logits(Model& m, const hunch::vocab_layout& layout) {
  m.set_head_layout(layout);
  CHECK(m.head_order() == layout.order());
  test::row_batch rows;
  rows.add_chain(0, 0, {5, 6, 7, 8});
  const std::int32_t count = layout.head_rows();
  const std::vector<hunch::row_range> ranges{{0, count}, {2, 3}, {10, 27}, {40, count}};
  const std::vector<hunch::shortlist> lists{layout.list(ranges.data(), 1),
                                            layout.list(ranges.data(), 1),
                                            layout.list(ranges.data() + 1, 3)};
  const std::vector<std::int32_t> row{1, -1, 3};
  std::vector<std::vector<float>> out;
  for (const auto& list : lists) { out.emplace_back(static_cast<std::size_t>(list.size), -1.0f); }
  std::vector<hunch::row_view<float>> logits;
  for (auto& o : out) { logits.push_back({o.data(), static_cast<std::int32_t>(o.size())}); }
  auto states = m.forward(rows.view());
  m.head(states, {3, row.data(), lists.data(), logits.data()});
  const auto all = m.evaluate(rows.view());
  for (const std::size_t i : {std::size_t(0), std::size_t(2)}) {
    std::vector<float> expected(out[i].size());
    for (std::size_t p = 0; p < expected.size(); ++p) {
      expected[p] = all.logits(row[i])[lists[i].token_at(static_cast<std::int32_t>(p))];
    }
    CHECK(out[i] == expected);
  }
  CHECK(out[1] == std::vector<float>(out[1].size(), -1.0f));
  return out;
}

hunch::vocab_layout shuffled(int vocab_size) {
  std::vector<hunch::token> row_token;
  for (int i = 0; i < vocab_size; ++i) {
    if (i % 3 != 0) { row_token.push_back(i * 7 % vocab_size); }
  }
  return hunch::vocab_layout::permuted(row_token, vocab_size);
}

}  // namespace

TEST_CASE("device model: the head over shortlists") {
  for (engine::config c : {test::tiny_config(), test::small_config()}) {
    const auto weights = test::random_checkpoint(c);
    model m(c, weights, {.max_rows = 8, .max_staged = 8});
    const auto first = shortlist_logits(m, hunch::vocab_layout::identity(c.vocab_size));
    CHECK(shortlist_logits(m, shuffled(c.vocab_size)) != first);
    CHECK(shortlist_logits(m, hunch::vocab_layout::identity(c.vocab_size)) == first);
    CHECK_THROWS_AS(m.set_head_layout(hunch::vocab_layout::identity(c.vocab_size + 1)),
                    std::invalid_argument);
  }
}

namespace {

/// The weights that an int4 copy of a model has, as floats.
engine::checkpoint rounded_to_int4(const engine::config& c) {
  std::vector<test::stored_tensor> out;
  for (test::stored_tensor& t : test::random_tensors(c, engine::dtype::f32)) {
    const bool in_layer = t.shape.size() == 2 && t.name.find("layers") != std::string::npos;
    if (in_layer) {
      const auto columns = static_cast<int>(t.shape[1]);
      const engine::matrix_view view{engine::dtype::f32, static_cast<int>(t.shape[0]), columns,
                                     t.bytes.data(), nullptr};
      const engine::stored_matrix packed(engine::arithmetic::int4, engine::all_rows(view), columns);
      std::vector<std::byte> rounded(t.bytes.size());
      for (int row = 0; row < view.rows; ++row) {
        std::vector<float> values(static_cast<std::size_t>(columns));
        packed.packed.read_row(row, values.data());
        std::memcpy(rounded.data() + values.size() * sizeof(float) * static_cast<std::size_t>(row),
                    values.data(), values.size() * sizeof(float));
      }
      t.bytes = rounded;
    }
    out.push_back(std::move(t));
  }
  return test::in_memory(out);
}

}  // namespace

TEST_CASE("device model: a copy with weights of four bits") {
  for (engine::config c : {test::tiny_config(), test::small_config()}) {
    engine::model expected(c, rounded_to_int4(c), {.kind = engine::arithmetic::f32});
    const auto weights = test::random_checkpoint(c);
    const auto all = [&](auto executor) {
      using where = decltype(executor);
      engine::device_model<where, engine::device::int4_multiply<where>> m(
          c, weights, {.max_rows = 32, .max_staged = 32}, executor);
      test::row_batch rows;
      rows.add_chain(0, 0, test::some_tokens(20, c.vocab_size));
      return rows_of(m.evaluate(rows.view()), 20);
    };
    const auto got = all(hunch::executor::host{});
    test::row_batch rows;
    rows.add_chain(0, 0, test::some_tokens(20, c.vocab_size));
    const auto right = rows_of(expected.evaluate(rows.view()), 20);
    for (std::size_t i = 0; i < right.size(); ++i) {
      CHECK(test::difference(got[i], right[i]) < test::bf16_tolerance);
    }
    engine::model whole(c, weights, {.kind = engine::arithmetic::f32});
    CHECK(test::difference(got[19], rows_of(whole.evaluate(rows.view()), 20)[19]) >
          test::bf16_tolerance);
    if (c.hidden < 100) { CHECK(all(test::team_host<3>{}) == got); }
  }
}

TEST_CASE("device model: teams of threads compute the same bits") {
  fixture with;
  SUBCASE("as a Llama") {}
  SUBCASE("with norms of heads") {
    with.shape.qk_norm = true;
    with.weights = test::random_checkpoint(with.shape);
  }
  const auto all = [&](auto executor) {
    engine::device_model m(with.shape, with.weights,
                           {.max_batch = 3, .max_rows = 16, .max_staged = 16}, executor);
    test::read(m, 0, with.part(0, 20), 9);
    test::row_batch rows;
    rows.add(0, 0, hunch::end_of_cache, 20, 1).add(0, 1, 0, 21, 2).add(0, 2, 0, 21, 3);
    rows.add(0, 3, 1, 22, 4).add(hunch::no_slot, 0, 0, 0, 0);
    rows.add(1, 0, hunch::end_of_cache, 0, 9);
    std::vector<std::vector<float>> out;
    const auto result = m.evaluate(rows.view());
    for (const int i : {0, 1, 2, 3, 5}) { out.push_back(test::copy(result.logits(i))); }
    test::keep(m, 0, {0, 1, 3});
    test::row_batch next;
    next.add(0, 0, hunch::end_of_cache, 23, 5);
    out.push_back(test::copy(m.evaluate(next.view()).logits(0)));
    for (auto& row : shortlist_logits(m, shuffled(with.shape.vocab_size))) { out.push_back(row); }
    test::release(m, 0);
    test::row_batch first;
    first.add(0, 0, hunch::end_of_cache, 0, 9);
    CHECK(test::copy(m.evaluate(first.view()).logits(0)) == out[4]);  // as in a slot that was free
    return out;
  };
  CHECK(all(test::team_host<3>{}) == all(hunch::executor::host{}));
}

namespace {

/// A host that fails when it is told to.
struct failing_host : hunch::executor::host {
  template <class T>
  struct buffer : hunch::executor::host::buffer<T> {
    buffer(failing_host& h, std::size_t n) : hunch::executor::host::buffer<T>(h, n) {}
  };
  template <class T>
  using resident = buffer<T>;
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    if (*fails) { throw std::runtime_error("out of order"); }
    hunch::executor::host::launch(count, body);
  }
  bool* fails;
};

}  // namespace

TEST_CASE("device model: an error of the executor in a commit is thrown by the next pass") {
  const fixture with;
  bool fails = false;
  failing_host executor;
  executor.fails = &fails;
  engine::device_model m(with.shape, with.weights, {.max_rows = 8, .max_staged = 8}, executor);
  test::row_batch rows;
  rows.add_chain(0, 0, with.part(0, 2));
  m.evaluate(rows.view());
  fails = true;
  test::keep(m, 0, {0, 1});
  fails = false;
  CHECK_THROWS_WITH_AS(m.evaluate(rows.view()), "out of order", std::runtime_error);
  CHECK(test::copy(m.evaluate(rows.view()).logits(1)) == with.after(2));
}

}  // namespace device_model_test

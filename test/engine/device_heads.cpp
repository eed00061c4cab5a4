// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/device/eagle.hpp>
#include <engine/device/early_exit.hpp>
#include <engine/device/medusa.hpp>
#include <engine/device/model.hpp>
#include <engine/device/streams.hpp>
#include <engine/early_contexts.hpp>
#include <engine/early_exit.hpp>
#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <engine/streams.hpp>
#include <hunch/core/bfloat16.hpp>

#include "closeness.hpp"
#include "team_host.hpp"
#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// What drafts with the states of a target on an executor says what its counterpart on the CPU
/// says, up to what bfloat16 rounds away; and a row says the same, bit for bit, wherever it stands.

namespace device_heads_test {
namespace {

using host = hunch::executor::host;
using model = engine::device_model<host>;
using numbers = std::vector<float>;

constexpr int pad = hunch::no_slot;
constexpr int end = hunch::end_of_cache;

engine::config deep(engine::config c) {
  c.layers = 4;
  return c;
}

const engine::device_options sizes{.max_batch = 3, .max_rows = 32, .max_staged = 32};
const engine::device_options with_features{
    .max_batch = 3, .max_rows = 32, .max_staged = 32, .keep_features = true};

/// All logits of a row of what a draft model's `forward` returned.
template <class Model, class States>
numbers logits_of(Model& m, const States& states, std::int32_t row) {
  const auto layout = hunch::vocab_layout::identity(m.vocab_size());
  const hunch::row_range all{0, m.vocab_size()};
  const hunch::shortlist list = layout.list(&all, 1);
  numbers out(static_cast<std::size_t>(m.vocab_size()));
  hunch::row_view<float> to{out.data(), list.size};
  m.head(states, {1, &row, &list, &to});
  return out;
}

/// What routers read of a row.
numbers context_of(const hunch::context_rows& all, std::int32_t row, std::int32_t width) {
  const float* const from = all.data + std::ptrdiff_t{row} * all.stride;
  return {from, from + width};
}

struct text {
  std::vector<hunch::token> tokens = test::some_tokens(40, 75);

  hunch::token operator[](int i) const { return tokens[static_cast<std::size_t>(i)]; }
  std::vector<hunch::token> part(int first, int last) const {
    return {tokens.begin() + first, tokens.begin() + last};
  }
};

}  // namespace

TEST_CASE("device model: hidden states are the engine's, at fixed places") {
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
    engine::model expected(c, weights, {.kind = engine::arithmetic::f32});
    model got(c, weights, sizes);
    const text t;
    test::read(expected, 0, t.part(0, 9), 9);
    test::read(got, 0, t.part(0, 9), 4);
    const test::row_batch rows = test::tree(0, 9);
    const auto a = expected.evaluate(rows.view());
    const auto b = got.evaluate(rows.view());
    const auto after = got.forward(rows.view());
    CHECK(got.context_width() == expected.context_width());
    for (int i = 0; i < 6; ++i) {
      CHECK(test::difference(test::copy(b.hidden(i)), test::copy(a.hidden(i))) <
            test::bf16_tolerance);
      CHECK(test::copy(after.hidden(i)) == test::copy(b.hidden(i)));
      CHECK(context_of(after.contexts(), i, got.context_width()) == test::copy(b.hidden(i)));
    }
    CHECK(test::difference(test::copy(b.hidden(1)), test::copy(a.hidden(2))) >
          2 * test::bf16_tolerance);
    test::row_batch fewer;
    fewer.add(pad, 0, 0, 0, 0).add(0, 0, end, 9, 3);
    const numbers root = test::copy(b.hidden(0));
    const auto again = got.evaluate(fewer.view());
    CHECK(again.hidden(1).data == b.hidden(1).data);
    CHECK(again.logits(1).data == b.logits(1).data);
    CHECK(test::copy(again.hidden(1)) == root);
  }
}

namespace {

constexpr int heads = 3;

/// Hidden states of several sequences, and padding.
struct states {
  explicit states(int hidden) {
    std::mt19937 source(9);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 3; ++i) {
      values.emplace_back(static_cast<std::size_t>(hidden));
      for (float& v : values.back()) { v = normal(source); }
    }
  }
  const float* operator[](int i) const { return values[static_cast<std::size_t>(i)].data(); }

  std::vector<numbers> values;
  std::vector<hunch::token> roots{5, 6, 7};
};

}  // namespace

TEST_CASE("device heads: Medusa's are the engine's") {
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    const bool own_heads = c.hidden == test::small_config().hidden;
    const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
    const auto own =
        test::in_memory(test::medusa_tensors(c, engine::dtype::bf16, heads, own_heads));
    const engine::medusa_config shape{heads, c.hidden, c.vocab_size, own_heads};
    engine::model of_expected(c, weights, {.kind = engine::arithmetic::f32});
    engine::medusa_heads expected(shape, own, of_expected);
    model target(c, weights, sizes);
    engine::device_medusa got(shape, own, target);
    CHECK(got.heads() == heads);
    CHECK(got.hidden_size() == c.hidden);
    CHECK(got.context_width() == c.hidden);

    const states in(c.hidden);
    const std::vector<const float*> all{in[0], nullptr, in[1]};
    const std::vector<const float*> there{in[0], in[1]};
    const auto a = expected.forward({2, there.data(), in.roots.data()});
    const auto b = got.forward({3, all.data(), in.roots.data()});
    std::vector<numbers> of_all;
    for (const int row : {0, 1, 2, 3, 4, 5}) {
      const int here = row < heads ? row : row + heads;
      const numbers state = test::copy(b.hidden(here));
      CHECK(test::difference(state, test::copy(a.hidden(row))) < test::bf16_tolerance);
      CHECK(test::difference(logits_of(got, b, here), logits_of(expected, a, row)) <
            test::bf16_tolerance);
      CHECK(context_of(b.contexts(), here, c.hidden) == state);
      of_all.push_back(state);
    }
    CHECK(test::difference(of_all[0], test::copy(a.hidden(1))) > 2 * test::bf16_tolerance);
    const auto alone = got.forward({1, &all[2], in.roots.data()});
    for (int j = 0; j < heads; ++j) {
      CHECK(test::copy(alone.hidden(j)) == of_all[static_cast<std::size_t>(heads + j)]);
    }
    got.forward({});
    if (own_heads) {
      const auto layout =
          hunch::vocab_layout::permuted(std::vector<std::int32_t>{9, 4, 70, 1}, c.vocab_size);
      const std::uint64_t before = target.head_order();
      got.set_head_layout(layout);
      CHECK(got.head_order() == layout.order());
      CHECK(target.head_order() == before);
    }

    const std::vector<const float*> many(4, in[0]);
    CHECK_THROWS_AS(got.forward({4, many.data(), in.roots.data()}), std::invalid_argument);
    const auto make = [&](const engine::medusa_config& s) {
      engine::device_medusa(s, own, target);
    };
    CHECK_THROWS_AS(make({0, c.hidden, c.vocab_size}), std::invalid_argument);
    CHECK_THROWS_AS(make({heads, c.hidden + 1, c.vocab_size}), std::invalid_argument);
    CHECK_THROWS_AS(make({heads, c.hidden, c.vocab_size + 1}), std::invalid_argument);
    CHECK_THROWS_AS(make({heads + 1, c.hidden, c.vocab_size}), std::runtime_error);
  }
}

namespace {

constexpr int exit_layer = 2;

struct exit_fixture {
  engine::config shape = deep(test::tiny_config());
  engine::checkpoint weights = test::random_checkpoint(shape, engine::dtype::bf16);
  engine::checkpoint own = test::in_memory(test::exit_tensors(shape, engine::dtype::bf16));
  text t;
};

}  // namespace

TEST_CASE("device heads: an early exit is the engine's, and leaves the target as it was") {
  const exit_fixture with;
  engine::model of_expected(with.shape, with.weights, {.kind = engine::arithmetic::f32});
  engine::early_exit expected({exit_layer}, with.own, of_expected);
  model target(with.shape, with.weights, sizes);
  model alone(with.shape, with.weights, sizes);
  engine::device_early_exit view({exit_layer}, with.own, target);
  CHECK(view.layers() == exit_layer);
  test::read(of_expected, 0, with.t.part(0, 9), 9);
  for (model* m : {&target, &alone}) { test::read(*m, 0, with.t.part(0, 9), 5); }

  const test::row_batch rows = test::tree(0, 9);
  const auto a = expected.forward(rows.view());
  std::vector<numbers> states;
  {
    const auto b = view.forward(rows.view());
    for (int i = 0; i < 6; ++i) {
      CHECK(b.status(i) == hunch::status::ok);
      states.push_back(test::copy(b.hidden(i)));
      CHECK(test::difference(states.back(), test::copy(a.hidden(i))) < test::bf16_tolerance);
      CHECK(test::difference(logits_of(view, b, i), logits_of(expected, a, i)) <
            test::bf16_tolerance);
      CHECK(context_of(b.contexts(), i, view.context_width()) == states.back());
    }
    CHECK(test::difference(states[0], test::copy(a.hidden(3))) > 2 * test::bf16_tolerance);
  }
  // Rows that only the view has read are not the target's to keep.
  test::keep(target, 0, {0, 1});
  CHECK(target.length(0) == 9);

  // The same rows, some of them padding, in two passes and under other ids.
  test::row_batch first;
  first.add(pad, 3, 3, 3, 3).add(0, 0, end, 9, 3).add(pad, -1, 9, 9, 9);
  CHECK(test::copy(view.forward(first.view()).hidden(1)) == states[0]);
  test::row_batch second;
  second.add(0, 2, 0, 10, 5).add(0, 4, 0, 10, 4).add(0, 7, 4, 11, 7).add(pad, 0, 0, 0, 0);
  const auto b = view.forward(second.view());
  CHECK(test::copy(b.hidden(0)) == states[2]);
  CHECK(test::copy(b.hidden(1)) == states[1]);
  CHECK(test::copy(b.hidden(2)) == states[4]);

  // The target evaluates other rows than the view has read, and keeps a path.
  for (int step = 0; step < 2; ++step) {
    const test::row_batch next = test::tree(0, 9 + 3 * step);
    const auto got = target.evaluate(next.view());
    const auto plain = alone.evaluate(next.view());
    for (int i = 0; i < 6; ++i) { CHECK(test::copy(got.logits(i)) == test::copy(plain.logits(i))); }
    for (model* m : {&target, &alone}) { test::keep(*m, 0, {0, 2, 5}); }
    CHECK(target.length(0) == 12 + 3 * step);
    view.forward(test::tree(0, 12 + 3 * step).view());
    view.commit({});
  }
  const auto make = [&](int layer) { engine::device_early_exit({layer}, with.own, target); };
  CHECK_THROWS_AS(make(0), std::invalid_argument);
  CHECK_THROWS_AS(make(4), std::invalid_argument);
}

namespace {

struct eagle_fixture {
  engine::config shape = test::tiny_config();
  engine::config head_shape = [] {
    engine::config c = test::tiny_config();
    c.layers = 1;
    return c;
  }();
  engine::checkpoint weights = test::random_checkpoint(shape, engine::dtype::bf16);
  engine::checkpoint own = test::in_memory(test::eagle_tensors(head_shape, engine::dtype::bf16));
  text t;

  /// Reads the first `size` tokens with the target, and then with the head, in pieces.
  template <class Target, class Head>
  void read(Target& target, Head& head, int slot, int size, int piece) const {
    test::read(target, slot, t.part(0, size), piece);
    for (int begin = 0; begin < size; begin += piece) {
      const int last = std::min(size, begin + piece);
      test::row_batch rows;
      rows.add_chain(slot, begin, t.part(begin, last), false);
      head.forward(rows.view());
      std::vector<std::int32_t> ids;
      for (int i = 0; i < last - begin; ++i) { ids.push_back(i); }
      test::keep(head, slot, ids);
    }
  }
};

}  // namespace

namespace {

/// The rows of `test::tree`, those of a depth in a pass.
std::vector<test::row_batch> levels(int slot) {
  std::vector<test::row_batch> out(3);
  out[0].add(slot, 0, end, 9, 3);
  out[1].add(slot, 1, 0, 10, 4).add(slot, 2, 0, 10, 5);
  out[2].add(slot, 3, 1, 11, 6).add(slot, 4, 1, 11, 7).add(slot, 5, 2, 11, 6);
  return out;
}

}  // namespace

TEST_CASE("device heads: an EAGLE head is the engine's") {
  const eagle_fixture with;
  engine::model of_expected(with.shape, with.weights,
                            {.kind = engine::arithmetic::f32, .keep_features = true});
  engine::eagle_model expected(with.head_shape, with.own, of_expected,
                               {.kind = engine::arithmetic::f32});
  model target(with.shape, with.weights, with_features);
  engine::device_eagle got(with.head_shape, with.own, target, sizes);
  with.read(of_expected, expected, 0, 9, 9);
  with.read(target, got, 0, 9, 4);
  CHECK(got.length(0) == 9);

  // A row reads what the head made of its parent, in a pass before.
  std::vector<numbers> states;
  for (const test::row_batch& rows : levels(0)) {
    const auto a = expected.forward(rows.view());
    const auto b = got.forward(rows.view());
    for (int i = 0; i < a.size(); ++i) {
      states.push_back(test::copy(b.hidden(i)));
      CHECK(test::difference(states.back(), test::copy(a.hidden(i))) < test::bf16_tolerance);
      CHECK(test::difference(logits_of(got, b, i), logits_of(expected, a, i)) <
            test::bf16_tolerance);
      CHECK(context_of(b.contexts(), i, got.context_width()) == states.back());
    }
  }
  CHECK(test::difference(states[0], states[3]) > 2 * test::bf16_tolerance);

  // Beside another sequence, with padding, and after a prompt in other pieces, in another slot.
  model target_again(with.shape, with.weights, with_features);
  engine::device_eagle again(with.head_shape, with.own, target_again, sizes);
  with.read(target_again, again, 2, 9, 3);
  with.read(target_again, again, 0, 4, 4);
  test::row_batch first;
  first.add(pad, 3, 3, 3, 3).add(0, 0, end, 4, 1).add(2, 0, end, 9, 3).add(pad, 0, 0, 0, 0);
  CHECK(test::copy(again.forward(first.view()).hidden(2)) == states[0]);
  test::row_batch second;
  second.add(2, 2, 0, 10, 5).add(2, 4, 0, 10, 4).add(0, 5, 0, 5, 1);
  const auto later = again.forward(second.view());
  CHECK(test::copy(later.hidden(0)) == states[2]);
  CHECK(test::copy(later.hidden(1)) == states[1]);
  test::row_batch third;
  third.add(pad, 1, 1, 1, 1).add(2, 7, 4, 11, 7).add(2, 9, 2, 11, 6);
  const auto last = again.forward(third.view());
  CHECK(test::copy(last.hidden(1)) == states[4]);
  CHECK(test::copy(last.hidden(2)) == states[5]);

  // What the target has read since is read again, with its features.
  test::row_batch next;
  next.add_chain(0, 9, {3, 4, 6});
  of_expected.evaluate(next.view());
  target.evaluate(next.view());
  test::keep(of_expected, 0, {0, 1, 2});
  test::keep(target, 0, {0, 1, 2});
  const auto c = expected.forward(next.view());
  const auto d = got.forward(next.view());
  for (int i = 0; i < 3; ++i) {
    CHECK(test::difference(test::copy(d.hidden(i)), test::copy(c.hidden(i))) <
          test::bf16_tolerance);
  }
  // A feature of the target is not the head's own guess.
  CHECK(test::copy(d.hidden(1)) != states[1]);
  test::keep(got, 0, {0, 1, 2});
  CHECK(got.length(0) == 12);
  test::release(got, 0);
  CHECK(got.length(0) == 0);
}

namespace {

/// Checks what routers read before a pass of `head`: the embedding of a row's token and the state
/// at the token before it, as router/train.py puts them together. \param fresh a target like
/// `target`, which has read nothing; rounded(x) is a state as it is kept.
template <class Target, class Head, class Rounded>
void check_inputs(const eagle_fixture& with, Target& target, Target& fresh, Head& head,
                  const Rounded& rounded) {
  const int hidden = with.shape.hidden;
  engine::early_contexts view(head);
  CHECK(view.context_width() == 2 * hidden);
  const auto embeddings =
      with.own.matrix("model.embed_tokens.weight", with.shape.vocab_size, hidden);
  const auto expected = [&](hunch::token t, const numbers& before) {
    numbers out(static_cast<std::size_t>(hidden));
    embeddings.read_row(t, out.data());
    for (const float x : before) { out.push_back(rounded(x)); }
    return out;
  };
  const auto read = [&](const test::row_batch& rows) {
    const hunch::context_rows contexts = view.contexts(rows.view());
    std::vector<numbers> out;
    for (int i = 0; i < rows.view().size; ++i) {
      out.push_back(context_of(contexts, i, view.context_width()));
    }
    return out;
  };

  // States of the target, where it has read the token before: also of rows that the head reads
  // late.
  test::row_batch whole;
  whole.add_chain(0, 0, with.t.part(0, 9));
  const auto of_target = fresh.evaluate(whole.view());
  std::vector<numbers> states{numbers(static_cast<std::size_t>(hidden))};
  for (int i = 0; i < 9; ++i) { states.push_back(test::copy(of_target.hidden(i))); }
  with.read(target, head, 0, 9, 4);
  with.read(target, head, 2, 4, 4);
  test::row_batch again;
  again.add_chain(2, 4, with.t.part(4, 9), false);
  target.evaluate(again.view());
  test::keep(target, 2, {0, 1, 2, 3, 4});
  test::row_batch first;
  first.add(1, 0, end, 0, with.t[0]).add(0, 0, end, 9, 3).add_chain(2, 4, with.t.part(4, 9));
  const std::vector<numbers> at_first = read(first);
  CHECK(at_first[0] == expected(with.t[0], states[0]));
  CHECK(at_first[1] == expected(3, states[9]));
  for (int i = 4; i < 9; ++i) {
    CHECK(at_first[static_cast<std::size_t>(i - 2)] ==
          expected(with.t[i], states[static_cast<std::size_t>(i)]));
  }

  // Then the head's own, of the pass that has read the parent.
  const std::vector<test::row_batch> passes = levels(0);
  std::vector<numbers> own;
  for (const test::row_batch& rows : passes) {
    const std::vector<numbers> before = read(rows);
    const hunch::rows r = rows.view();
    for (int i = 0; i < r.size; ++i) {
      const numbers& above =
          r.parent[i] == end ? states[9] : own[static_cast<std::size_t>(r.parent[i])];
      CHECK(before[static_cast<std::size_t>(i)] == expected(r.tokens[i], above));
    }
    const auto of_head = view.forward(r);
    for (int i = 0; i < r.size; ++i) { own.push_back(test::copy(of_head.hidden(i))); }
  }
}

}  // namespace

TEST_CASE("EAGLE heads: what routers read before a pass") {
  const eagle_fixture with;
  const engine::model_options options{
      .kind = engine::arithmetic::f32, .max_batch = 3, .keep_features = true};
  engine::model target(with.shape, with.weights, options);
  engine::model fresh(with.shape, with.weights, options);
  engine::eagle_model head(with.head_shape, with.own, target, options);
  check_inputs(with, target, fresh, head, [](float x) { return x; });
  test::row_batch foreign;
  foreign.add(0, 0, end, 9, with.shape.vocab_size);
  CHECK_THROWS_AS(head.inputs(foreign.view()), std::out_of_range);
}

TEST_CASE("device heads: what routers read before an EAGLE head's pass") {
  const eagle_fixture with;
  model target(with.shape, with.weights, with_features);
  model fresh(with.shape, with.weights, with_features);
  engine::device_eagle head(with.head_shape, with.own, target, sizes);
  check_inputs(with, target, fresh, head,
               [](float x) { return hunch::to_float(hunch::to_bfloat16(x)); });

  // Padding is passed over, and so are slots and parents that are not there.
  test::row_batch rows;
  rows.add(pad, 3, 3, 3, 3).add(7, 0, 0, 9, 3).add(0, 0, end, 9, 3).add(1, 4, 500, 9, 3);
  test::row_batch alone;
  alone.add(0, 0, end, 9, 3);
  const numbers expected = context_of(head.inputs(alone.view()), 0, head.input_width());
  const hunch::context_rows got = head.inputs(rows.view());
  CHECK(context_of(got, 2, head.input_width()) == expected);
  CHECK(context_of(got, 3, head.input_width()).back() == 0.0f);
  test::row_batch many;
  many.add_chain(0, 9, test::some_tokens(sizes.max_rows + 1, with.shape.vocab_size));
  CHECK_THROWS_AS(head.inputs(many.view()), std::invalid_argument);
}

TEST_CASE("device heads: what makes no EAGLE head") {
  const eagle_fixture with;
  model no_features(with.shape, with.weights, sizes);
  model target(with.shape, with.weights, with_features);
  const auto make = [&](model& of, const engine::checkpoint& own, engine::config c,
                        engine::device_options o) { engine::device_eagle(c, own, of, o); };
  CHECK_THROWS_AS(make(no_features, with.own, with.head_shape, sizes), std::invalid_argument);
  CHECK_THROWS_AS(make(target, with.weights, with.head_shape, sizes), std::runtime_error);
  engine::config wide = with.head_shape;
  wide.hidden += 10;
  CHECK_THROWS_AS(make(target, with.own, wide, sizes), std::invalid_argument);
  engine::config tied = with.head_shape;
  tied.tied_head = true;
  CHECK_THROWS_AS(make(target, with.own, tied, sizes), std::invalid_argument);
  CHECK_THROWS_AS(make(target, with.own, with.head_shape, {.max_batch = 4}), std::invalid_argument);
}

namespace {

constexpr int streams = test::tiny_streams;
constexpr int stream_layers = 2;

engine::device_options with_streams(int most) {
  engine::device_options o = sizes;
  o.max_streams = most;
  return o;
}

hunch::rows asking(const test::row_batch& rows, int count) {
  hunch::rows out = rows.view();
  out.streams = count;
  return out;
}

/// The streams beside a row, one after the other.
template <class Evaluation>
numbers streams_of(const Evaluation& e, int row, int count) {
  numbers out;
  for (int j = 0; j < count; ++j) {
    const numbers state = test::copy(e.stream(row, j));
    out.insert(out.end(), state.begin(), state.end());
  }
  return out;
}

}  // namespace

TEST_CASE("device heads: streams are the engine's, and rows do not see them") {
  for (const engine::config& c : {deep(test::tiny_config()), deep(test::small_config())}) {
    const bool published = c.hidden == deep(test::small_config()).hidden;  // one linear map
    const engine::stream_config shape{streams, stream_layers, c.hidden, c.vocab_size, published};
    const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
    const auto own = test::in_memory(
        test::stream_tensors(c, stream_layers, engine::dtype::bf16, !published, 5, published));
    engine::model of_expected(c, weights, {.kind = engine::arithmetic::f32});
    engine::speculative_streams expected(shape, own, of_expected);
    model target(c, weights, with_streams(4));
    model alone(c, weights, sizes);
    engine::device_streams got(shape, own, target);
    CHECK(got.heads() == streams);
    CHECK(got.layers() == stream_layers);
    const text t;
    test::read(of_expected, 0, t.part(0, 9), 9);
    for (model* m : {&target, &alone}) { test::read(*m, 0, t.part(0, 9), 4); }

    test::row_batch rows;
    rows.add(0, 0, end, 9, 3).add(0, 1, 0, 10, 4, false).add(0, 2, 0, 10, 5);
    rows.add(0, 3, 1, 11, 6).add(0, 4, 2, 11, 7);
    const auto a = of_expected.evaluate(asking(rows, streams));
    const auto b = target.evaluate(asking(rows, streams));
    const auto plain = alone.evaluate(rows.view());
    std::vector<numbers> beside;
    for (const int row : {0, 2, 3, 4}) {
      CAPTURE(row);
      CHECK(test::copy(b.logits(row)) == test::copy(plain.logits(row)));
      CHECK(test::copy(b.hidden(row)) == test::copy(plain.hidden(row)));
      beside.push_back(streams_of(b, row, streams));
      CHECK(test::difference(beside.back(), streams_of(a, row, streams)) < test::bf16_tolerance);
    }
    CHECK(test::difference(beside[0], streams_of(a, 2, streams)) > 2 * test::bf16_tolerance);

    // Drafts from them.
    const auto from_a = [&](int row) { return streams_of(a, row, streams); };
    const std::vector<numbers> in{from_a(0), from_a(3)};
    const std::vector<const float*> there{in[0].data(), in[1].data()};
    const std::vector<const float*> padded{nullptr, in[0].data(), in[1].data()};
    const std::vector<hunch::token> roots{11, 12}, padded_roots{hunch::no_token, 11, 12};
    for (const int each : {streams, 1}) {
      const auto right = expected.forward({2, there.data(), roots.data(), each});
      const auto drafted = got.forward({3, padded.data(), padded_roots.data(), each});
      std::vector<numbers> together;
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < each; ++j) {
          const int row = (i + 1) * streams + j;
          together.push_back(test::copy(drafted.hidden(row)));
          CHECK(test::difference(together.back(), test::copy(right.hidden(i * streams + j))) <
                test::bf16_tolerance);
          CHECK(test::difference(logits_of(got, drafted, row),
                                 logits_of(expected, right, i * streams + j)) <
                test::bf16_tolerance);
          CHECK(context_of(drafted.contexts(), row, got.context_width()) == together.back());
        }
      }
      const auto single = got.forward({1, &there[1], &roots[1], each});
      for (int j = 0; j < each; ++j) {
        CHECK(test::copy(single.hidden(j)) == together[static_cast<std::size_t>(each + j)]);
      }
    }

    // A path alone, among padding, in another slot; and fewer streams.
    test::read(target, 2, t.part(0, 9), 9);
    test::row_batch path;
    path.add(pad, 1, 1, 1, 1).add(2, 0, end, 9, 3).add(2, 1, 0, 10, 5).add(2, 2, 1, 11, 7);
    const auto by_path = target.evaluate(asking(path, streams));
    CHECK(by_path.stream(3, 0).data == b.stream(3, 0).data);
    CHECK(streams_of(by_path, 3, streams) == beside[3]);
    CHECK(streams_of(by_path, 2, streams) == beside[1]);
    const auto fewer = target.evaluate(asking(path, 1));
    const numbers first(beside[3].begin(), beside[3].begin() + c.hidden);
    CHECK(test::copy(fewer.stream(3, 0)) == first);
    CHECK_THROWS_AS(fewer.stream(3, 1), std::out_of_range);

    // What is cached does not depend on streams.
    test::keep(target, 2, {0, 1, 2});
    alone.evaluate(rows.view());
    test::keep(alone, 0, {0, 2, 4});
    CHECK(target.length(2) == 12);
    const auto after = target.evaluate(asking(test::tree(2, 12), streams));
    const auto without = alone.evaluate(test::tree(0, 12).view());
    for (int i = 0; i < 6; ++i) {
      CHECK(test::copy(after.logits(i)) == test::copy(without.logits(i)));
    }
  }
}

TEST_CASE("device heads: streams at the end of a cache") {
  const engine::config c = deep(test::tiny_config());
  const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
  const auto own = test::in_memory(test::stream_tensors(c, stream_layers, engine::dtype::bf16));
  const engine::stream_config shape{streams, stream_layers, c.hidden, c.vocab_size};
  engine::device_options o = with_streams(streams);
  o.max_length = 10;
  engine::model of_expected(c, weights, {.kind = engine::arithmetic::f32, .context = 10});
  engine::speculative_streams expected(shape, own, of_expected);
  model target(c, weights, o);
  engine::device_streams got(shape, own, target);
  test::row_batch rows;
  rows.add_chain(0, 0, test::some_tokens(10, c.vocab_size));
  const auto a = of_expected.evaluate(asking(rows, streams));
  const auto b = target.evaluate(asking(rows, streams));
  CHECK(test::difference(streams_of(b, 9, streams), streams_of(a, 9, streams)) <
        test::bf16_tolerance);
}

TEST_CASE("device heads: streams without roots, and what makes none") {
  const engine::config c = deep(test::tiny_config());
  const auto weights = test::random_checkpoint(c, engine::dtype::bf16);
  const auto own =
      test::in_memory(test::stream_tensors(c, stream_layers, engine::dtype::bf16, false));
  const engine::stream_config shape{streams, stream_layers, c.hidden, c.vocab_size};
  model target(c, weights, with_streams(streams));
  CHECK_THROWS_AS(target.evaluate(asking(test::tree(0, 0), 1)), std::invalid_argument);
  {
    engine::device_streams got(shape, own, target);
    const auto e = target.evaluate(asking(test::tree(0, 0), streams));
    const numbers in = streams_of(e, 4, streams);
    const float* const from = in.data();
    const hunch::token root = 5;
    const auto drafted = got.forward({1, &from, &root, streams});
    numbers out;
    for (int j = 0; j < streams; ++j) {
      const numbers state = test::copy(drafted.hidden(j));
      out.insert(out.end(), state.begin(), state.end());
    }
    CHECK(out == in);
    CHECK_THROWS_AS(got.forward({1, &from, &root, streams + 1}), std::invalid_argument);
    CHECK_THROWS_AS(target.evaluate(asking(test::tree(0, 0), streams + 1)), std::invalid_argument);
    CHECK_THROWS_AS(engine::device_streams(shape, own, target), std::invalid_argument);
    target.evaluate(asking({}, streams));
  }
  CHECK_THROWS_AS(target.evaluate(asking(test::tree(0, 0), 1)), std::invalid_argument);
  const auto make = [&](model& of, const engine::stream_config& s) {
    engine::device_streams(s, own, of);
  };
  model small(c, weights, with_streams(streams - 1));
  CHECK_THROWS_AS(make(small, shape), std::invalid_argument);
  CHECK_THROWS_AS(make(target, {streams, 4, c.hidden, c.vocab_size}), std::invalid_argument);
  CHECK_THROWS_AS(make(target, {streams, 2, c.hidden + 1, c.vocab_size}), std::invalid_argument);
}

TEST_CASE("device heads: teams of threads compute the same bits") {
  const eagle_fixture with;
  const exit_fixture of_exit;
  const auto all = [&](auto executor) {
    std::vector<numbers> out;
    engine::device_model target(with.shape, with.weights, with_features, executor);
    engine::device_eagle eagle(with.head_shape, with.own, target, sizes);
    with.read(target, eagle, 1, 9, 4);
    for (const test::row_batch& rows : levels(1)) {
      const hunch::context_rows before = eagle.inputs(rows.view());
      for (int i = 0; i < rows.view().size; ++i) {
        out.push_back(context_of(before, i, eagle.input_width()));
      }
      const auto of_eagle = eagle.forward(rows.view());
      for (int i = 0; i < rows.view().size; ++i) { out.push_back(test::copy(of_eagle.hidden(i))); }
    }

    const auto own =
        test::in_memory(test::medusa_tensors(with.shape, engine::dtype::i8, heads, true));
    engine::device_medusa medusa({heads, with.shape.hidden, with.shape.vocab_size, true}, own,
                                 target);
    const states in(with.shape.hidden);
    const std::vector<const float*> inputs{nullptr, in[0], in[1]};
    const auto of_medusa = medusa.forward({3, inputs.data(), in.roots.data()});
    for (int row = heads; row < 3 * heads; ++row) {
      out.push_back(test::copy(of_medusa.hidden(row)));
      out.push_back(logits_of(medusa, of_medusa, row));
    }

    engine::device_model deep(of_exit.shape, of_exit.weights, sizes, executor);
    engine::device_early_exit view({exit_layer}, of_exit.own, deep);
    const auto of_view = view.forward(test::tree(0, 0).view());
    for (int i = 0; i < 6; ++i) { out.push_back(test::copy(of_view.hidden(i))); }

    engine::device_model streaming(of_exit.shape, of_exit.weights, with_streams(streams), executor);
    const auto of_streams =
        test::in_memory(test::stream_tensors(of_exit.shape, stream_layers, engine::dtype::i8));
    engine::device_streams beside(
        {streams, stream_layers, of_exit.shape.hidden, of_exit.shape.vocab_size}, of_streams,
        streaming);
    const auto e = streaming.evaluate(asking(test::tree(0, 0), streams));
    for (int i = 0; i < 6; ++i) { out.push_back(streams_of(e, i, streams)); }
    const std::vector<const float*> from{nullptr, e.stream(2, 0).data};
    const auto drafted = beside.forward({2, from.data(), in.roots.data(), 1});
    out.push_back(test::copy(drafted.hidden(streams)));
    return out;
  };
  CHECK(all(test::team_host<3>{}) == all(host{}));
}

}  // namespace device_heads_test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include <engine/model.hpp>

#include "tiny_model.hpp"

/// A row's logits are bitwise the same alone and among any others. Speculative decoding is lossless
/// only so far as this holds: the target must say of a drafted token what it would have said alone.

namespace invariance_test {
namespace {

using engine::arithmetic;

struct fixture {
  engine::config shape;
  engine::checkpoint weights;
  std::vector<hunch::token> text;

  explicit fixture(const engine::config& c)
      : shape{c},
        weights{test::random_checkpoint(c, engine::dtype::i8)},
        text{test::some_tokens(70, c.vocab_size)} {}

  engine::model make(arithmetic kind, int threads = 1, int max_batch = 4) const {
    return {shape, weights, {.kind = kind, .threads = threads, .max_batch = max_batch}};
  }

  /// The logits after every token of the text, one row at a time.
  std::vector<std::vector<float>> alone(arithmetic kind) const {
    engine::model m = make(kind);
    std::vector<std::vector<float>> out;
    for (int i = 0; i < static_cast<int>(text.size()); ++i) {
      test::row_batch row;
      row.add(0, 0, hunch::end_of_cache, i, text[static_cast<std::size_t>(i)]);
      out.push_back(test::copy(m.evaluate(row.view()).logits(0)));
      test::keep(m, 0, {0});
    }
    return out;
  }

  std::vector<hunch::token> prefix(int size) const { return {text.begin(), text.begin() + size}; }
};

template <class F>
void for_each_setting(F f) {
  engine::config with_norms = test::tiny_config();
  with_norms.qk_norm = true;
  for (const engine::config& c : {test::tiny_config(), with_norms, test::small_config()}) {
    const fixture with(c);
    for (const arithmetic kind : test::arithmetics()) {
      CAPTURE(c.hidden);
      CAPTURE(static_cast<int>(kind));
      f(with, kind, with.alone(kind));
    }
  }
}

using expectation = std::vector<std::vector<float>>;

}  // namespace

TEST_CASE("a prompt in pieces of any size") {
  for_each_setting([](const fixture& with, arithmetic kind, const expectation& expected) {
    for (const int piece : {1, 2, 5, 6, 7, 13, 64, 70}) {
      CAPTURE(piece);
      engine::model m = with.make(kind);
      for (int begin = 0; begin < 70; begin += piece) {
        const int end = std::min(70, begin + piece);
        test::row_batch rows;
        rows.add_chain(0, begin, {with.text.begin() + begin, with.text.begin() + end});
        const auto result = m.evaluate(rows.view());
        std::vector<std::int32_t> ids;
        for (int i = begin; i < end; ++i) {
          CHECK(test::copy(result.logits(i - begin)) == expected[static_cast<std::size_t>(i)]);
          ids.push_back(i - begin);
        }
        test::keep(m, 0, ids);
      }
    }
  });
}

TEST_CASE("a row among 2 to 64 sequences of different lengths") {
  for_each_setting([](const fixture& with, arithmetic kind, const expectation& expected) {
    engine::model m = with.make(kind, 1, 64);
    for (int slot = 0; slot < 64; ++slot) { test::read(m, slot, with.prefix(slot), 32); }
    for (const int batch : {2, 3, 6, 7, 11, 12, 64}) {
      CAPTURE(batch);
      test::row_batch rows;
      for (int slot = 0; slot < batch; ++slot) {
        rows.add(slot, 0, hunch::end_of_cache, slot, with.text[static_cast<std::size_t>(slot)]);
      }
      const auto result = m.evaluate(rows.view());
      for (int slot = 0; slot < batch; ++slot) {
        CHECK(test::copy(result.logits(slot)) == expected[static_cast<std::size_t>(slot)]);
      }
    }
  });
}

TEST_CASE("a path through a tree, drawn in one pass or level by level") {
  for_each_setting([](const fixture& with, arithmetic kind, const expectation& expected) {
    for (const bool by_level : {false, true}) {
      CAPTURE(by_level);
      engine::model m = with.make(kind);
      test::read(m, 0, with.prefix(19), 8);
      // Level d has the text's token as its second node; the others are decoys, with children.
      constexpr int depth = 9;
      test::row_batch whole;
      int parent = hunch::end_of_cache;
      int decoy_parent = hunch::end_of_cache;
      std::vector<std::int32_t> path;
      for (int d = 0; d < depth; ++d) {
        test::row_batch level;
        const auto token = with.text[static_cast<std::size_t>(19 + d)];
        const int first = 3 * d;
        for (test::row_batch* rows : {&whole, &level}) {
          rows->add(0, first, decoy_parent, 19 + d, (token + 1) % with.shape.vocab_size)
              .add(0, first + 1, parent, 19 + d, token)
              .add(0, first + 2, parent, 19 + d, (token + 2) % with.shape.vocab_size);
        }
        decoy_parent = first;
        parent = first + 1;
        path.push_back(parent);
        if (by_level) {
          const auto result = m.evaluate(level.view());
          CHECK(test::copy(result.logits(1)) == expected[static_cast<std::size_t>(19 + d)]);
        }
      }
      if (!by_level) {
        const auto result = m.evaluate(whole.view());
        for (int d = 0; d < depth; ++d) {
          CHECK(test::copy(result.logits(3 * d + 1)) == expected[static_cast<std::size_t>(19 + d)]);
        }
      }
      test::keep(m, 0, path);
      CHECK(m.length(0) == 19 + depth);
      test::row_batch next;
      next.add(0, 0, hunch::end_of_cache, 28, with.text[28]);
      CHECK(test::copy(m.evaluate(next.view()).logits(0)) == expected[28]);
    }
  });
}

TEST_CASE("any number of threads") {
  for_each_setting([](const fixture& with, arithmetic kind, const expectation& expected) {
    for (const int threads : {2, 3, 5}) {
      CAPTURE(threads);
      engine::model m = with.make(kind, threads);
      test::read(m, 3, with.prefix(40), 7);
      test::row_batch rows;
      rows.add_chain(3, 40, {with.text.begin() + 40, with.text.begin() + 46});
      const auto result = m.evaluate(rows.view());
      for (int i = 0; i < 6; ++i) {
        CHECK(test::copy(result.logits(i)) == expected[static_cast<std::size_t>(40 + i)]);
      }
    }
  });
}

TEST_CASE("rows that are not wanted change nothing") {
  for_each_setting([](const fixture& with, arithmetic kind, const expectation& expected) {
    engine::model m = with.make(kind);
    test::row_batch rows;
    for (int i = 0; i < 9; ++i) {
      rows.add(0, i, i == 0 ? hunch::end_of_cache : i - 1, i,
               with.text[static_cast<std::size_t>(i)], i % 4 == 0);
    }
    const auto result = m.evaluate(rows.view());
    for (int i = 0; i < 9; i += 4) {
      CHECK(test::copy(result.logits(i)) == expected[static_cast<std::size_t>(i)]);
    }
    CHECK_THROWS_AS(result.logits(1), std::out_of_range);
  });
}

}  // namespace invariance_test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include <engine/model.hpp>

#include "tiny_model.hpp"

/// What is staged, kept, discarded and released; rows without room; calls that are refused.

namespace staging_test {
namespace {

struct fixture {
  engine::config shape = test::tiny_config();
  engine::checkpoint weights = test::random_checkpoint(shape);
  std::vector<hunch::token> text = test::some_tokens(40, shape.vocab_size);

  engine::model make(int context = 0) const {
    return {shape, weights, {.kind = engine::arithmetic::f32, .max_batch = 3, .context = context}};
  }

  /// The logits after text[0 .. size) in a model that has seen nothing else.
  std::vector<float> after(int size) const {
    engine::model m = make();
    test::row_batch rows;
    rows.add_chain(0, 0, {text.begin(), text.begin() + size});
    return test::copy(m.evaluate(rows.view()).logits(size - 1));
  }

  std::vector<hunch::token> part(int begin, int end) const {
    return {text.begin() + begin, text.begin() + end};
  }

  /// The logits after one more token.
  std::vector<float> next(engine::model& m, int slot, int position) const {
    test::row_batch row;
    row.add(slot, 0, hunch::end_of_cache, position, text[static_cast<std::size_t>(position)]);
    return test::copy(m.evaluate(row.view()).logits(0));
  }
};

}  // namespace

TEST_CASE("staged id 0 discards what was staged") {
  const fixture with;
  engine::model m = with.make();
  test::read(m, 0, with.part(0, 10), 10);
  test::row_batch wrong;
  wrong.add_chain(0, 10, {70, 71, 72, 73, 74});
  m.evaluate(wrong.view());
  CHECK(m.length(0) == 10);
  CHECK(with.next(m, 0, 10) == with.after(11));
  // A kept id that only the abandoned step had is passed over.
  test::keep(m, 0, {0, 3});
  CHECK(m.length(0) == 11);
  CHECK(with.next(m, 0, 11) == with.after(12));
}

TEST_CASE("a step in several calls") {
  const fixture with;
  engine::model m = with.make();
  test::read(m, 0, with.part(0, 4), 4);
  test::row_batch first;
  first.add(0, 0, hunch::end_of_cache, 4, with.text[4]).add(0, 5, 0, 5, 1);
  m.evaluate(first.view());
  test::row_batch second;
  second.add(0, 6, 0, 5, with.text[5]).add(0, 9, 6, 6, with.text[6]);
  CHECK(test::copy(m.evaluate(second.view()).logits(1)) == with.after(7));
  test::keep(m, 0, {0, 6, 9});
  CHECK(m.length(0) == 7);
  CHECK(with.next(m, 0, 7) == with.after(8));
}

TEST_CASE("slots are independent, and a released one is empty") {
  const fixture with;
  engine::model m = with.make();
  test::read(m, 0, with.part(0, 10), 3);
  test::read(m, 2, with.part(0, 20), 5);
  test::read(m, 1, {5, 6, 7}, 3);
  CHECK(with.next(m, 2, 20) == with.after(21));
  CHECK(with.next(m, 0, 10) == with.after(11));
  test::release(m, 2);
  CHECK(m.length(2) == 0);
  CHECK(m.length(0) == 10);
  CHECK(with.next(m, 2, 0) == with.after(1));
  test::keep(m, 2, {0});
  CHECK(with.next(m, 2, 1) == with.after(2));
  CHECK(with.next(m, 0, 10) == with.after(11));
}

TEST_CASE("rows are kept before slots are released, in one commit") {
  const fixture with;
  engine::model m = with.make();
  test::row_batch rows;
  rows.add_chain(0, 0, with.part(0, 3)).add_chain(1, 0, with.part(0, 2));
  m.evaluate(rows.view());
  const std::vector<std::int32_t> sequence{0, 0, 0, 1, 1};
  const std::vector<std::int32_t> id{0, 1, 2, 0, 1};
  const std::int32_t released = 1;
  m.commit({5, sequence.data(), id.data(), 1, &released});
  CHECK(m.length(0) == 3);
  CHECK(m.length(1) == 0);
  CHECK(with.next(m, 0, 3) == with.after(4));
}

TEST_CASE("a full cache is data") {
  const fixture with;
  engine::model m = with.make(12);
  CHECK(m.context() == 12);
  test::read(m, 0, with.part(0, 10), 4);
  test::read(m, 1, with.part(0, 5), 5);
  test::row_batch rows;
  rows.add(0, 0, hunch::end_of_cache, 10, with.text[10])
      .add(0, 1, 0, 11, with.text[11])
      .add(0, 2, 1, 12, with.text[12])
      .add(0, 3, 0, 11, 5)  // would fit, but comes later
      .add(1, 0, hunch::end_of_cache, 5, with.text[5]);
  const auto result = m.evaluate(rows.view());
  REQUIRE(result.size() == 5);
  CHECK(result.status(0) == hunch::status::ok);
  CHECK(result.status(1) == hunch::status::ok);
  CHECK(result.status(2) == hunch::status::cache_full);
  CHECK(result.status(3) == hunch::status::cache_full);
  CHECK(result.status(4) == hunch::status::ok);
  CHECK(test::copy(result.logits(1)) == with.after(12));
  CHECK(test::copy(result.logits(4)) == with.after(6));
  CHECK_THROWS_AS(result.logits(2), std::out_of_range);

  test::row_batch child;  // of a row without room, in a later call of the step
  child.add(0, 4, 2, 13, 1);
  CHECK(m.evaluate(child.view()).status(0) == hunch::status::cache_full);

  test::keep(m, 0, {0, 1, 2});
  CHECK(m.length(0) == 12);
  test::row_batch more;
  more.add(0, 0, hunch::end_of_cache, 12, 1);
  CHECK(m.evaluate(more.view()).status(0) == hunch::status::cache_full);
  test::keep(m, 0, {0});
  CHECK(m.length(0) == 12);
  test::release(m, 0);
  CHECK(with.next(m, 0, 0) == with.after(1));
}

TEST_CASE("rows that break the rules are refused, and nothing changes") {
  const fixture with;
  engine::model m = with.make();
  test::read(m, 0, with.part(0, 5), 5);
  test::row_batch good;
  good.add_chain(0, 5, with.part(5, 8));
  m.evaluate(good.view());

  const auto refused = [&](const test::row_batch& rows) {
    try {
      m.evaluate(rows.view());
    } catch (const std::out_of_range&) { return 1; } catch (const std::invalid_argument&) {
      return 2;
    }
    return 0;
  };
  constexpr int end = hunch::end_of_cache;
  using batch = test::row_batch;
  CHECK(refused(batch().add(0, 0, end, 5, -1)) == 1);
  CHECK(refused(batch().add(0, 0, end, 5, with.shape.vocab_size)) == 1);
  CHECK(refused(batch().add(0, 0, end, 5, 1).add(1, 0, end, 0, 1000)) == 1);
  CHECK(refused(batch().add(-1, 0, end, 5, 1)) == 1);
  CHECK(refused(batch().add(3, 0, end, 5, 1)) == 1);
  CHECK(refused(batch().add(0, 3, 7, 5, 1)) == 2);  // an unknown parent
  CHECK(refused(batch().add(0, 0, 1, 5, 1)) == 2);  // a parent of the discarded step
  CHECK(refused(batch().add(0, 3, -2, 5, 1)) == 2);
  CHECK(refused(batch().add(0, 2, 1, 7, 1)) == 2);  // an id that is staged
  CHECK(refused(batch().add(0, 4, 2, 8, 1).add(0, 3, 2, 8, 1)) == 2);
  CHECK(refused(batch().add(0, -3, end, 5, 1)) == 2);
  CHECK(refused(batch().add(0, 3, 2, -1, 1)) == 2);
  CHECK(refused(batch().add(0, 3, 2, 8, 1).add(1, 0, end, 0, 1).add(0, 4, 3, 9, 1)) == 2);

  // The staged rows are still there.
  test::row_batch later;
  later.add(0, 3, 2, 8, with.text[8]);
  CHECK(test::copy(m.evaluate(later.view()).logits(0)) == with.after(9));
  test::keep(m, 0, {0, 1, 2, 3});
  CHECK(with.next(m, 0, 9) == with.after(10));
}

TEST_CASE("no rows") {
  const fixture with;
  engine::model m = with.make();
  CHECK(m.evaluate(hunch::rows{}).size() == 0);
  m.commit(hunch::kept_rows{});
}

TEST_CASE("commits of nonsense are passed over") {
  const fixture with;
  engine::model m = with.make();
  const std::vector<std::int32_t> sequence{-1, 0, 9};
  const std::vector<std::int32_t> id{0, -5, 1 << 30};
  const std::int32_t released = 17;
  m.commit({3, sequence.data(), id.data(), 1, &released});
  CHECK(m.length(0) == 0);
}

TEST_CASE("a model can be moved") {
  const fixture with;
  engine::model first = with.make();
  test::read(first, 0, with.part(0, 5), 5);
  engine::model second = std::move(first);
  CHECK(with.next(second, 0, 5) == with.after(6));
}

}  // namespace staging_test

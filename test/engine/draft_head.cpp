// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include <engine/model.hpp>
#include <hunch/vocab_layout.hpp>

#include "tiny_model.hpp"

/// The head over shortlists says what `evaluate` says of the same tokens.

namespace {

using engine::arithmetic;

struct setting {
  engine::config shape;
  engine::dtype type;
  arithmetic kind;
  int threads;
};

std::vector<setting> settings() {
  std::vector<setting> out;
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    for (const int threads : {1, 2, 3}) {
      out.push_back({c, engine::dtype::f32, arithmetic::f32, threads});
      out.push_back({c, engine::dtype::bf16, arithmetic::bf16_fma, threads});
      out.push_back({c, engine::dtype::i8, arithmetic::bf16_fma, threads});
      if (engine::has_bf16_dot()) {
        out.push_back({c, engine::dtype::i8, arithmetic::bf16_dot, threads});
      }
    }
  }
  return out;
}

/// Multiplying by 7 shuffles a vocabulary whose size 7 does not divide; every third token is left
/// out of the head.
hunch::vocab_layout shuffled(int vocab_size) {
  std::vector<hunch::token> row_token;
  for (int i = 0; i < vocab_size; ++i) {
    if (i % 3 != 0) { row_token.push_back(i * 7 % vocab_size); }
  }
  return hunch::vocab_layout::permuted(row_token, vocab_size);
}

/// Checks `head` over `list` for rows 1 and 3 of a pass.
void check(engine::model& m, const setting& s, const hunch::shortlist& list) {
  test::row_batch rows;
  rows.add_chain(0, 0, {5, 6, 7, 8});
  std::vector<std::vector<float>> expected;
  const auto evaluated = m.evaluate(rows.view());
  for (const int row : {1, 3}) { expected.push_back(test::copy(evaluated.logits(row))); }

  const auto states = m.forward(rows.view());
  CHECK(states.hidden(1).size == s.shape.hidden);
  CHECK_THROWS_AS(states.hidden(4), std::out_of_range);
  std::vector<std::vector<float>> got(2, std::vector<float>(static_cast<std::size_t>(list.size)));
  const std::vector<std::int32_t> row{1, 3};
  const std::vector<hunch::shortlist> lists{list, list};
  const std::vector<hunch::row_view<float>> logits{{got[0].data(), list.size},
                                                   {got[1].data(), list.size}};
  m.head(states, {2, row.data(), lists.data(), logits.data()});
  // bf16_dot rounds the hidden state; the head over a shortlist does not.
  const double tolerance = s.kind == arithmetic::bf16_dot ? 5e-2 : 1e-4;
  for (std::size_t i = 0; i < 2; ++i) {
    for (int position = 0; position < list.size; ++position) {
      const auto token = static_cast<std::size_t>(list.token_at(position));
      const double difference =
          std::fabs(static_cast<double>(expected[i][token]) -
                    static_cast<double>(got[i][static_cast<std::size_t>(position)]));
      CHECK(difference <= tolerance);
    }
  }
}

}  // namespace

TEST_CASE("the whole vocabulary, a prefix, and several ranges") {
  for (const setting& s : settings()) {
    CAPTURE(s.shape.hidden);
    CAPTURE(static_cast<int>(s.kind));
    CAPTURE(s.threads);
    const int size = s.shape.vocab_size;
    engine::model m(s.shape, test::random_checkpoint(s.shape, s.type),
                    {.kind = s.kind, .threads = s.threads});
    for (const auto& layout : {hunch::vocab_layout::identity(size), shuffled(size)}) {
      m.set_head_layout(layout);
      CHECK(m.head_fingerprint() == layout.fingerprint());
      const int rows = layout.head_rows();
      for (const std::vector<hunch::row_range>& ranges : {std::vector<hunch::row_range>{{0, rows}},
                                                          {{0, 11}},
                                                          {{2, 3}, {10, 27}, {40, rows}},
                                                          {{7, 7}, {8, 9}},
                                                          {}}) {
        check(m, s, layout.list(ranges.data(), static_cast<std::int32_t>(ranges.size())));
      }
    }
  }
}

TEST_CASE("without a layout the head has token order") {
  const engine::config c = test::tiny_config();
  engine::model m(c, test::random_checkpoint(c), {.kind = arithmetic::f32});
  const auto identity = hunch::vocab_layout::identity(c.vocab_size);
  CHECK(m.head_fingerprint() == identity.fingerprint());
  const hunch::row_range all{0, c.vocab_size};
  check(m, {c, engine::dtype::f32, arithmetic::f32, 1}, identity.list(&all, 1));
}

TEST_CASE("layouts and shortlists that do not fit are refused") {
  const engine::config c = test::tiny_config();
  engine::model m(c, test::random_checkpoint(c), {.kind = arithmetic::f32});
  CHECK_THROWS_AS(m.set_head_layout(hunch::vocab_layout::identity(c.vocab_size + 1)),
                  std::invalid_argument);
  test::row_batch rows;
  rows.add_chain(0, 0, {5}).add(0, 1, 0, 1, 6, false);
  const auto states = m.forward(rows.view());
  std::vector<float> out(100);
  const auto attempt = [&](std::int32_t row, hunch::row_range range, std::int32_t size,
                           std::int32_t room) {
    const hunch::shortlist list{&range, 1, size, nullptr, nullptr};
    const hunch::row_view<float> logits{out.data(), room};
    m.head(states, {1, &row, &list, &logits});
  };
  CHECK_NOTHROW(attempt(0, {0, 5}, 5, 5));
  CHECK_THROWS_AS(attempt(0, {0, 5}, 5, 4), std::invalid_argument);
  CHECK_THROWS_AS(attempt(0, {0, 5}, 6, 6), std::invalid_argument);
  CHECK_THROWS_AS(attempt(0, {-1, 4}, 5, 5), std::invalid_argument);
  CHECK_THROWS_AS(attempt(0, {4, 3}, -1, -1), std::invalid_argument);
  CHECK_THROWS_AS(attempt(0, {71, 76}, 5, 5), std::invalid_argument);
  CHECK_THROWS_AS(attempt(1, {0, 5}, 5, 5), std::out_of_range);
}

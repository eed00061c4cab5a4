// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/draft_head.hpp>
#include <engine/model.hpp>
#include <engine/packed_matrix.hpp>
#include <engine/simd.hpp>
#include <engine/tensor.hpp>
#include <engine/thread_pool.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "tiny_model.hpp"

/// The head over shortlists says what `evaluate` says of the same tokens.

namespace draft_head_test {
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
  std::vector<hunch::row_view<float>> logits{{got[0].data(), list.size},
                                             {got[1].data(), list.size}};
  m.head(states, {2, row.data(), lists.data(), logits.data()});
  // bf16_dot rounds the hidden state to 8 bits, the head over a shortlist to 15 where it has bytes.
  const double tolerance = s.kind == arithmetic::bf16_dot ? 5e-2
                           : s.type == engine::dtype::i8  ? 5e-4
                                                          : 1e-4;
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
      CHECK(m.head_order() == layout.order());
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
  CHECK(m.head_order() == identity.order());
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
    hunch::row_view<float> logits{out.data(), room};
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

namespace {

/// A head by itself, of random weights, with hidden states and the lists that these ask for.
struct head_alone {
  static constexpr int outputs = 701;
  static constexpr int states = 70;  ///< more than a plan is for

  head_alone(engine::dtype type, int width) : inputs(width), stride(engine::round_up(width, 16)) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(outputs * inputs));
    for (float& x : values) { x = normal(random); }
    tensors = test::encode("w", values, {outputs, inputs}, type);
    source = {type, outputs, inputs, tensors[0].bytes.data(),
              tensors.size() > 1 ? tensors[1].bytes.data() : nullptr};
    std::vector<engine::weight_row> rows;
    for (int r = 0; r < outputs; ++r) { rows.push_back({&source, r}); }
    const auto kind =
        type == engine::dtype::f32 ? engine::arithmetic::f32 : engine::arithmetic::bf16_fma;
    bytes.grow(engine::packed_matrix::bytes(kind, outputs, inputs));
    packed = engine::packed_matrix(kind, rows, inputs, bytes.data());
    hidden.resize(static_cast<std::size_t>(states * stride));
    for (int s = 0; s < states; ++s) {
      for (int k = 0; k < inputs; ++k) {
        hidden[static_cast<std::size_t>(s * stride + k)] = normal(random);
      }
    }
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int s = 0; s < states; ++s) {
      std::vector<hunch::row_range> list;
      for (int at = below(30); at < layout.head_rows();) {
        const int end = std::min(layout.head_rows(), at + 1 + below(s % 3 == 0 ? 60 : 9));
        list.push_back({at, end});
        at = end + below(40);
      }
      ranges.push_back(list);
    }
    ranges[1] = {{0, layout.head_rows()}};
    ranges[2] = {};
    ranges[4] = {{5, 5}, {layout.head_rows() - 1, layout.head_rows()}};
  }

  hunch::shortlist list(int s) const {
    const auto& of = ranges[static_cast<std::size_t>(s)];
    return layout.list(of.data(), static_cast<std::int32_t>(of.size()));
  }

  /// The logits of all states' lists, asked for in groups of `group`.
  std::vector<std::vector<float>> logits(int threads, int group) const {
    engine::thread_pool pool(threads);
    engine::draft_head head(packed, layout, pool);
    CHECK(head.rows() == layout.head_rows());
    std::vector<std::vector<float>> out;
    for (int s = 0; s < states; ++s) { out.emplace_back(static_cast<std::size_t>(list(s).size)); }
    for (int first = 0; first < states; first += group) {
      std::vector<std::int32_t> row;
      std::vector<hunch::shortlist> lists;
      std::vector<hunch::row_view<float>> views;
      for (int s = first; s < std::min(states, first + group); ++s) {
        row.push_back(s);
        lists.push_back(list(s));
        views.push_back({out[static_cast<std::size_t>(s)].data(), lists.back().size});
      }
      head.multiply(
          hidden.data(), stride,
          {static_cast<std::int32_t>(row.size()), row.data(), lists.data(), views.data()});
    }
    return out;
  }

  /// Logit i of state s and the sum of the sizes of its terms, in double, from what the
  /// checkpoint holds.
  std::pair<double, double> exact(int s, int i) const {
    std::vector<float> values(static_cast<std::size_t>(inputs));
    const int token = list(s).token_at(i);
    source.read_row(token, values.data());
    double sum = 0.0;
    double size = 0.0;
    for (int k = 0; k < inputs; ++k) {
      const double term = static_cast<double>(values[static_cast<std::size_t>(k)]) *
                          static_cast<double>(hidden[static_cast<std::size_t>(s * stride + k)]);
      sum += term;
      size += std::fabs(term);
    }
    const auto scale = static_cast<double>(source.scale_of(token));
    return {scale * sum, scale * size};
  }

  int inputs;
  int stride;
  hunch::vocab_layout layout = shuffled(outputs);
  std::vector<test::stored_tensor> tensors;
  engine::matrix_view source;
  engine::aligned_buffer<std::byte> bytes;
  engine::packed_matrix packed;
  std::vector<float> hidden;
  std::vector<std::vector<hunch::row_range>> ranges;
};

}  // namespace

TEST_CASE("a logit of the head over shortlists, in any company") {
  for (const engine::dtype type : {engine::dtype::f32, engine::dtype::bf16, engine::dtype::i8}) {
    for (const int inputs : {64, 200}) {
      CAPTURE(engine::to_string(type));
      CAPTURE(inputs);
      const head_alone all(type, inputs);
      const auto alone = all.logits(1, 1);
      double worst = 0.0;
      for (int s = 0; s < all.states; ++s) {
        const auto& found = alone[static_cast<std::size_t>(s)];
        for (std::size_t i = 0; i < found.size(); ++i) {
          const auto [sum, size] = all.exact(s, static_cast<int>(i));
          worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - sum) / size);
        }
      }
      // Hidden states have 15 bits beside bytes, of which the largest number has all.
      CHECK(worst < (type == engine::dtype::i8 ? 4.0 * 0x1p-16 : 1e-6));
      CHECK(worst > 0.0);  // they are sums of floats
      for (const int threads : {1, 2, 3}) {
        for (const int group : {1, 2, 9, all.states}) {
          CHECK(all.logits(threads, group) == alone);
        }
      }
    }
  }
}

}  // namespace draft_head_test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/medusa.hpp>
#include <engine/model.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "copy.hpp"
#include "reference.hpp"
#include "tiny_heads.hpp"
#include "tiny_model.hpp"

/// Draft heads on a target's hidden state.

namespace medusa_test {
namespace {

using engine::arithmetic;

constexpr int heads = 3;

struct setting {
  engine::dtype type;
  arithmetic kind;
  double tolerance;
};

std::vector<setting> settings() {
  std::vector<setting> out{{engine::dtype::f32, arithmetic::f32, 1e-4},
                           {engine::dtype::i8, arithmetic::f32, 1e-4},
                           {engine::dtype::bf16, arithmetic::bf16_fma, 1e-4},
                           {engine::dtype::i8, arithmetic::bf16_fma, 1e-4}};
  if (engine::has_bf16_dot()) { out.push_back({engine::dtype::bf16, arithmetic::bf16_dot, 0.1}); }
  return out;
}

/// Hidden states and roots of several sequences.
struct inputs {
  explicit inputs(const engine::config& c, int size)
      : roots{test::some_tokens(size, c.vocab_size)} {
    std::mt19937 source(9);
    std::normal_distribution<float> normal;
    for (int i = 0; i < size; ++i) {
      std::vector<float> h(static_cast<std::size_t>(c.hidden));
      for (float& v : h) { v = normal(source); }
      hidden.push_back(h);
    }
    for (const auto& h : hidden) { pointers.push_back(h.data()); }
  }

  hunch::head_inputs view(int first, int size) const {
    return {size, pointers.data() + first, roots.data() + first};
  }

  std::vector<hunch::token> roots;
  std::vector<std::vector<float>> hidden;
  std::vector<const float*> pointers;
};

}  // namespace

TEST_CASE("draft heads say what the textbook says") {
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    for (setting s : settings()) {
      const bool own_heads = s.type != engine::dtype::i8;  // either way with both arithmetics
      CAPTURE(c.hidden);
      CAPTURE(engine::to_string(s.type));
      CAPTURE(static_cast<int>(s.kind));
      const auto weights = test::random_checkpoint(c, s.type);
      const auto own = test::in_memory(test::medusa_tensors(c, s.type, heads, own_heads));
      engine::model target(c, weights, {.kind = s.kind});
      engine::medusa_heads medusa({heads, c.hidden, c.vocab_size, own_heads}, own, target);
      CHECK(medusa.heads() == heads);
      CHECK(medusa.hidden_size() == c.hidden);
      CHECK(medusa.vocab_size() == c.vocab_size);
      CHECK(medusa.context_width() == c.hidden);

      const test::reference_model reference(c, weights);
      const inputs in(c, 2);
      const auto states = medusa.forward(in.view(0, 2));
      REQUIRE(states.size == 2 * heads);
      const auto layout = hunch::vocab_layout::identity(c.vocab_size);
      const hunch::row_range range{3, c.vocab_size};
      const auto list = layout.list(&range, 1);
      std::vector<float> logits(static_cast<std::size_t>(list.size));
      hunch::row_view<float> out{logits.data(), list.size};
      for (std::int32_t row = 0; row < states.size; ++row) {
        const auto& from = in.hidden[static_cast<std::size_t>(row / heads)];
        test::vec expected(from.begin(), from.end());
        test::vec mapped =
            test::reference_model::product(own, test::medusa_name(row % heads), c.hidden, expected);
        for (double& v : mapped) { v = test::silu(v); }
        test::reference_model::add(expected, mapped);
        const auto got = states.hidden(row);
        REQUIRE(got.size == c.hidden);
        for (int k = 0; k < c.hidden; ++k) {
          const double error =
              static_cast<double>(got.data[k]) - expected[static_cast<std::size_t>(k)];
          CHECK(std::fabs(error) < s.tolerance);
        }
        medusa.head(states, {1, &row, &list, &out});
        const test::vec full =
            own_heads ? test::reference_model::product(own, test::own_head_name(row % heads),
                                                       c.vocab_size, expected)
                      : reference.head(expected);
        for (std::int32_t i = 0; i < list.size; ++i) {
          const double error = static_cast<double>(logits[static_cast<std::size_t>(i)]) -
                               full[static_cast<std::size_t>(list.token_at(i))];
          CHECK(std::fabs(error) < 10 * s.tolerance);
        }
      }
    }
  }
}

TEST_CASE("a row of draft heads in any company") {
  constexpr int sequences = 9;
  for (const engine::config& c : {test::tiny_config(), test::small_config()}) {
    for (const setting& s : settings()) {
      const auto weights = test::random_checkpoint(c, s.type);
      const auto own = test::in_memory(test::medusa_tensors(c, s.type, heads));
      const inputs in(c, sequences);
      engine::model target(c, weights, {.kind = s.kind});
      engine::medusa_heads medusa({heads, c.hidden, c.vocab_size}, own, target);
      std::vector<std::vector<float>> alone;
      for (int i = 0; i < sequences; ++i) {
        const auto states = medusa.forward(in.view(i, 1));
        for (int j = 0; j < heads; ++j) { alone.push_back(test::copy(states.hidden(j))); }
      }
      for (const int threads : {1, 2, 3}) {
        engine::model others(c, weights, {.kind = s.kind, .threads = threads});
        engine::medusa_heads many({heads, c.hidden, c.vocab_size}, own, others);
        for (const int size : {2, 7, sequences}) {
          const auto states = many.forward(in.view(0, size));
          for (int row = 0; row < size * heads; ++row) {
            CHECK(test::copy(states.hidden(row)) == alone[static_cast<std::size_t>(row)]);
          }
        }
      }
    }
  }
}

TEST_CASE("draft heads and their target share the head over shortlists") {
  const engine::config c = test::tiny_config();
  const auto weights = test::random_checkpoint(c, engine::dtype::i8);
  engine::model target(c, weights, {.kind = arithmetic::bf16_fma});
  engine::medusa_heads medusa({heads, c.hidden, c.vocab_size},
                              test::in_memory(test::medusa_tensors(c, engine::dtype::i8, heads)),
                              target);
  const auto layout =
      hunch::vocab_layout::permuted(std::vector<std::int32_t>{9, 4, 70, 1}, c.vocab_size);
  medusa.set_head_layout(layout);
  CHECK(medusa.head_order() == layout.order());
  CHECK(target.head_order() == layout.order());

  // A head of zeros hands the hidden state on: its logits are the target's.
  std::vector<test::stored_tensor> zeros;
  const std::vector<float> nothing(static_cast<std::size_t>(c.hidden * c.hidden));
  for (auto& t :
       test::encode(test::medusa_name(0), nothing, {c.hidden, c.hidden}, engine::dtype::f32)) {
    zeros.push_back(t);
  }
  engine::medusa_heads none({1, c.hidden, c.vocab_size}, test::in_memory(zeros), target);
  test::row_batch text;
  text.add_chain(0, 0, {5, 6, 7});
  const auto evaluated = target.forward(text.view());
  const hunch::row_range range{0, 4};
  const auto list = layout.list(&range, 1);
  std::vector<float> expected(4);
  std::vector<float> got(4);
  hunch::row_view<float> from_target{expected.data(), 4};
  hunch::row_view<float> from_heads{got.data(), 4};
  std::int32_t row = 1;
  target.head(evaluated, {1, &row, &list, &from_target});
  const float* const hidden = evaluated.hidden(1).data;
  const hunch::token root = 7;
  const auto states = none.forward({1, &hidden, &root});
  row = 0;
  none.head(states, {1, &row, &list, &from_heads});
  CHECK(got == expected);

  // So is what a router reads.
  const float* const context = states.context(0);
  CHECK(std::equal(context, context + medusa.context_width(), evaluated.context(1)));
}

TEST_CASE("draft heads with language-model heads of their own leave the target's as it was") {
  const engine::config c = test::tiny_config();
  engine::model target(c, test::random_checkpoint(c, engine::dtype::i8),
                       {.kind = arithmetic::bf16_fma, .threads = 2});
  const std::uint64_t order_before = target.head_order();
  engine::medusa_heads medusa(
      {heads, c.hidden, c.vocab_size, true},
      test::in_memory(test::medusa_tensors(c, engine::dtype::i8, heads, true)), target);
  const inputs in(c, 2);
  const auto states = medusa.forward(in.view(0, 2));
  const auto logits_of = [&](const hunch::vocab_layout& layout, std::vector<std::int32_t> rows) {
    const hunch::row_range all{0, layout.head_rows()};
    const auto list = layout.list(&all, 1);
    const std::vector<hunch::shortlist> lists(rows.size(), list);
    std::vector<std::vector<float>> out(rows.size(),
                                        std::vector<float>(static_cast<std::size_t>(list.size)));
    std::vector<hunch::row_view<float>> views;
    for (auto& row : out) { views.push_back({row.data(), list.size}); }
    medusa.head(states,
                {static_cast<std::int32_t>(rows.size()), rows.data(), lists.data(), views.data()});
    return out;
  };
  const auto plain = hunch::vocab_layout::identity(c.vocab_size);
  const auto together = logits_of(plain, {0, 1, 2, 3, 4, 5});
  for (std::int32_t row = 0; row < 6; ++row) {  // alone, each says the same
    CHECK(logits_of(plain, {row})[0] == together[static_cast<std::size_t>(row)]);
  }
  CHECK(together[0] != together[1]);
  const auto layout =
      hunch::vocab_layout::permuted(std::vector<std::int32_t>{9, 4, 70, 1}, c.vocab_size);
  medusa.set_head_layout(layout);
  CHECK(medusa.head_order() == layout.order());
  CHECK(target.head_order() == order_before);
  const auto some = logits_of(layout, {4});
  const auto& whole = together[4];
  CHECK(some[0] == std::vector<float>{whole[9], whole[4], whole[70], whole[1]});
}

TEST_CASE("draft heads that do not fit are refused") {
  const engine::config c = test::tiny_config();
  engine::model target(c, test::random_checkpoint(c), {.kind = arithmetic::f32});
  const auto tensors = test::medusa_tensors(c, engine::dtype::f32, heads);
  const auto complaint = [&](const engine::medusa_config& shape, std::size_t tensor_count) {
    try {
      engine::medusa_heads medusa(
          shape,
          test::in_memory(
              {tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(tensor_count)}),
          target);
    } catch (const std::exception& error) { return std::string(error.what()); }
    return std::string();
  };
  const auto says = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  CHECK(complaint({heads, c.hidden, c.vocab_size}, heads).empty());
  CHECK(says(complaint({heads, c.hidden, c.vocab_size}, heads - 1), "medusa.2.weight"));
  CHECK(says(complaint({0, c.hidden, c.vocab_size}, heads), "at least one"));
  CHECK(says(complaint({heads, c.hidden + 1, c.vocab_size}, heads), "hidden size"));
  CHECK(says(complaint({heads, c.hidden, c.vocab_size + 1}, heads), "vocabulary"));

  engine::medusa_heads medusa({heads, c.hidden, c.vocab_size}, test::in_memory(tensors), target);
  inputs in(c, 1);
  in.roots[0] = c.vocab_size;
  CHECK_THROWS_AS(medusa.forward(in.view(0, 1)), std::out_of_range);
  in.roots[0] = 0;
  const auto states = medusa.forward(in.view(0, 1));
  const std::int32_t row = heads;
  const hunch::row_range range{0, 5};
  const auto list = hunch::vocab_layout::identity(c.vocab_size).list(&range, 1);
  std::vector<float> logits(5);
  hunch::row_view<float> out{logits.data(), 5};
  CHECK_THROWS_AS(medusa.head(states, {1, &row, &list, &out}), std::out_of_range);
}

}  // namespace medusa_test

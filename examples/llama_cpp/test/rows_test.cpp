// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <hunch/vocab/vocab_layout.hpp>

#include "../llama_model.hpp"
#include "../own_head_model.hpp"
#include "shipped.hpp"

// Logits of rows, by the adapter and by the head of our own, against llama.cpp's.

namespace llama_cpp::test {
namespace {

/// Rows of a pass, all of them wanted.
class staged_rows {
 public:
  /// A text from its beginning.
  staged_rows& add(std::int32_t slot, const std::vector<hunch::token>& text) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(text.size()); ++i) {
      push(slot, i, i - 1, i, text[static_cast<std::size_t>(i)]);
    }
    return *this;
  }
  /// Another token in place of the last one: two branches.
  staged_rows& branch(hunch::token other) {
    push(slots_.back(), ids_.back() + 1, parents_.back(), positions_.back(), other);
    return *this;
  }
  staged_rows& want_only(std::initializer_list<std::int32_t> rows) {
    wanted_.assign(wanted_.size(), 0);
    for (const std::int32_t i : rows) { wanted_[static_cast<std::size_t>(i)] = 1; }
    return *this;
  }
  hunch::rows view() const {
    return {.size = static_cast<std::int32_t>(ids_.size()),
            .slot = slots_.data(),
            .id = ids_.data(),
            .parent = parents_.data(),
            .position = positions_.data(),
            .tokens = tokens_.data(),
            .wanted = wanted_.data(),
            .streams = 0};
  }

 private:
  void push(std::int32_t slot, std::int32_t id, std::int32_t parent, std::int32_t position,
            hunch::token t) {
    slots_.push_back(slot);
    ids_.push_back(id);
    parents_.push_back(parent);
    positions_.push_back(position);
    tokens_.push_back(t);
    wanted_.push_back(1);
  }

  std::vector<hunch::token> tokens_;
  std::vector<std::int32_t> ids_, slots_, parents_, positions_;
  std::vector<std::uint8_t> wanted_;
};

/// What llama.cpp computes of both branches, [rows, V].
std::vector<float> reference(const weights& of, std::vector<hunch::token> text,
                             hunch::token other) {
  plain_context context(of);
  std::vector<float> out = context.read_all(text);
  text.back() = other;
  const std::vector<float> branch = context.read_all(text);
  out.insert(out.end(), branch.end() - context.vocab_size(), branch.end());
  return out;
}

float largest_difference(const float* a, const float* b, int n) {
  float out = 0.0f;
  for (int i = 0; i < n; ++i) { out = std::max(out, std::abs(a[i] - b[i])); }
  return out;
}

constexpr model_options sizes{.max_batch = 1, .cells = 64, .max_rows = 32, .max_wanted = 32};
constexpr hunch::token other = 300;

/// A pass in which the rows that have an output, those that are computed, and all are counted
/// differently: two rows find no room, one of them in the middle of what is wanted.
struct partly_wanted {
  static constexpr model_options sizes{
      .max_batch = 2, .cells = 10, .max_rows = 32, .max_wanted = 8};
  static constexpr std::int32_t compared[] = {3, 7, 15, 20};

  explicit partly_wanted(const weights& of) {
    const std::vector<hunch::token> full = prompts(12)[0];
    const std::vector<hunch::token> fits = prompts(8)[1];
    rows.add(0, full).add(1, fits).branch(other).want_only({3, 7, 11, 15, 20});
    plain_context context(of);
    expected = context.read_all(full);
    const std::vector<float> behind = reference(of, fits, other);
    expected.insert(expected.end(), behind.begin(), behind.end());
  }

  staged_rows rows;
  std::vector<float> expected;  ///< [rows, V]
};

hunch::vocab_layout backwards(int v) {
  std::vector<hunch::token> order(static_cast<std::size_t>(v));
  std::iota(order.rbegin(), order.rend(), 0);
  return hunch::vocab_layout::permuted(order, v);
}

/// Of the logits of one row over a shortlist, by a head of our own. \param expected [V]
template <std::int32_t Branches>
float difference_of_head(own_head_model<Branches>& of, std::int32_t row,
                         const hunch::shortlist& list, const float* expected) {
  typename own_head_model<Branches>::hidden_states hidden{&of};
  std::vector<float> logits(static_cast<std::size_t>(list.size));
  hunch::row_view<float> out{logits.data(), list.size};
  of.head(hidden, {.size = 1, .row = &row, .lists = &list, .logits = &out});
  std::vector<float> same(logits.size());
  for (std::int32_t at = 0; at < list.size; ++at) {
    same[static_cast<std::size_t>(at)] = expected[list.token_at(at)];
  }
  return largest_difference(logits.data(), same.data(), list.size);
}

}  // namespace

TEST_CASE("rows of two branches have llama.cpp's logits") {
  const std::vector<hunch::token> text = prompts(12)[1];
  const std::vector<float> expected = reference(target(), text, other);
  const staged_rows rows = staged_rows().add(0, text).branch(other);
  model<2> of_target(target(), sizes);
  const auto found = of_target.evaluate(rows.view());
  const int v = of_target.vocab_size();
  for (std::int32_t i = 0; i < rows.view().size; ++i) {
    REQUIRE(found.status(i) == hunch::status::ok);
    CHECK(largest_difference(found.logits(i).data, expected.data() + std::ptrdiff_t{i} * v, v) <
          1e-3f);
  }
}

TEST_CASE("and so have they by the head of our own, in any order and in part") {
  const std::vector<hunch::token> text = prompts(12)[1];
  // The shipped weights are bytes with a factor for each row, so that nothing is rounded but
  // states.
  const std::vector<float> expected = reference(draft(), text, other);
  const staged_rows rows = staged_rows().add(0, text).branch(other);
  const int v = draft().vocab_size();
  const hunch::vocab_layout layout = backwards(v);
  own_head_model<2> of_draft(draft(), layout, sizes);
  of_draft.forward(rows.view());

  const hunch::row_range ranges[] = {{5, 70}, {1000, 1001}, {20000, 32000}};
  const hunch::shortlist list = layout.list(ranges, 3);
  for (std::int32_t i = 0; i < rows.view().size; ++i) {
    CHECK(difference_of_head(of_draft, i, list, expected.data() + std::ptrdiff_t{i} * v) < 5e-3f);
  }
}

TEST_CASE("where not all rows are wanted, and some have no room, each has its own logits") {
  const partly_wanted pass(target());
  model<2> of_target(target(), partly_wanted::sizes);
  const auto found = of_target.evaluate(pass.rows.view());
  const int v = of_target.vocab_size();
  for (const std::int32_t full : {10, 11}) {
    CHECK(found.status(full) == hunch::status::cache_full);
  }
  for (const std::int32_t i : partly_wanted::compared) {
    CAPTURE(i);
    REQUIRE(found.status(i) == hunch::status::ok);
    CHECK(largest_difference(found.logits(i).data, pass.expected.data() + std::ptrdiff_t{i} * v,
                             v) < 1e-3f);
  }

  const partly_wanted drafted(draft());
  const hunch::vocab_layout layout = backwards(v);
  own_head_model<2> of_draft(draft(), layout, partly_wanted::sizes);
  of_draft.forward(drafted.rows.view());
  const hunch::row_range whole{0, v};
  const hunch::shortlist list = layout.list(&whole, 1);
  for (const std::int32_t i : partly_wanted::compared) {
    CAPTURE(i);
    CHECK(difference_of_head(of_draft, i, list, drafted.expected.data() + std::ptrdiff_t{i} * v) <
          5e-3f);
  }
}

TEST_CASE("and so it has where llama.cpp computes the states of all rows") {
  const weights small(HUNCH_GGUF "/all-rows.gguf");
  const std::vector<hunch::token> text{1, 270, 300, 310, 333, 390, 280, 281};
  plain_context context(small);
  const std::vector<float> expected = context.read_all(text);
  const int v = small.vocab_size();
  const hunch::vocab_layout layout = backwards(v);
  own_head_model<> of_draft(small, layout, sizes);
  of_draft.forward(staged_rows().add(0, text).want_only({3, 7}).view());
  const hunch::row_range whole{0, v};
  const hunch::shortlist list = layout.list(&whole, 1);
  for (const std::int32_t i : {3, 7}) {
    CHECK(difference_of_head(of_draft, i, list, expected.data() + std::ptrdiff_t{i} * v) < 0.1f);
  }
}

TEST_CASE("a model whose graph does not name its last states is refused") {
  const weights small(HUNCH_GGUF "/no-states.gguf");
  constexpr model_options of_two{.max_batch = 2, .cells = 4, .max_rows = 32, .max_wanted = 8};
  const std::vector<hunch::token> text{1, 270, 300, 310};
  own_head_model<> of_draft(small, backwards(small.vocab_size()), of_two);
  // Nobody asks for states.
  CHECK_NOTHROW(of_draft.forward(staged_rows().add(0, text).want_only({}).view()));
  const std::int32_t slots[4] = {};
  const std::int32_t ids[] = {0, 1, 2, 3};
  of_draft.commit({.size = 4, .slot = slots, .id = ids});
  // The first row finds no room, the last one is computed.
  staged_rows next = staged_rows().add(0, {300}).add(1, text);
  CHECK_THROWS_WITH_AS(of_draft.forward(next.view()), doctest::Contains("no 'result_norm'"),
                       std::runtime_error);
}

TEST_CASE("a model with an encoder is refused") {
  CHECK_THROWS_WITH_AS(model<>(weights(HUNCH_GGUF "/encoder.gguf"), sizes),
                       doctest::Contains("a model with an encoder"), std::invalid_argument);
}

TEST_CASE("more wanted rows than a context is made for are refused") {
  model_options few = sizes;
  few.max_wanted = 1;  // and there are two sequence ids
  model<2> of_target(target(), few);
  const std::vector<hunch::token> text = prompts(12)[1];
  CHECK_NOTHROW(of_target.evaluate(staged_rows().add(0, text).want_only({3, 7}).view()));
  CHECK_THROWS_WITH_AS(of_target.evaluate(staged_rows().add(0, text).want_only({3, 7, 11}).view()),
                       doctest::Contains("more than 2 rows"), std::length_error);
}

}  // namespace llama_cpp::test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <hunch/vocab/vocab_layout.hpp>

#include "../llama_model.hpp"
#include "../own_head_model.hpp"
#include "shipped.hpp"

// Logits of rows, by the adapter and by the head of our own, against llama.cpp's.

namespace llama_cpp::test {
namespace {

/// A text, and behind all but its last token another one: two branches.
class branching_rows {
 public:
  branching_rows(const std::vector<hunch::token>& text, hunch::token other)
      : tokens_(text),
        ids_(text.size() + 1),
        slots_(ids_.size()),
        parents_(ids_.size()),
        wanted_(ids_.size(), 1) {
    tokens_.push_back(other);
    std::iota(ids_.begin(), ids_.end(), 0);
    std::iota(parents_.begin(), parents_.end(), hunch::end_of_cache);
    positions_ = ids_;
    --parents_.back();
    --positions_.back();
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

}  // namespace

TEST_CASE("rows of two branches have llama.cpp's logits") {
  const std::vector<hunch::token> text = prompts(12)[1];
  const std::vector<float> expected = reference(target(), text, other);
  const branching_rows rows(text, other);
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
  const branching_rows rows(text, other);
  const int v = draft().vocab_size();
  std::vector<hunch::token> backwards(static_cast<std::size_t>(v));
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  const hunch::vocab_layout layout = hunch::vocab_layout::permuted(backwards, v);
  own_head_model<2> of_draft(draft(), layout, sizes);
  auto hidden = of_draft.forward(rows.view());

  const hunch::row_range ranges[] = {{5, 70}, {1000, 1001}, {20000, 32000}};
  const hunch::shortlist list = layout.list(ranges, 3);
  for (std::int32_t i = 0; i < rows.view().size; ++i) {
    std::vector<float> logits(static_cast<std::size_t>(list.size));
    hunch::row_view<float> out{logits.data(), list.size};
    of_draft.head(hidden, {.size = 1, .row = &i, .lists = &list, .logits = &out});
    std::vector<float> wanted(logits.size());
    for (std::int32_t at = 0; at < list.size; ++at) {
      wanted[static_cast<std::size_t>(at)] =
          expected[static_cast<std::size_t>(std::ptrdiff_t{i} * v + list.token_at(at))];
    }
    CHECK(largest_difference(logits.data(), wanted.data(), list.size) < 5e-3f);
  }
}

}  // namespace llama_cpp::test

// SPDX-License-Identifier: Apache-2.0

// Masked models with caches that are filled when a block is begun: what they compute, and that
// drafts change nothing of what is written with them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <engine/block_cached_model.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>

#include "masked_texts.hpp"

namespace {

using engine::block_cache;
using test::canvas;
using test::canvas_batch;
using test::vec;

constexpr block_cache caches[] = {block_cache::prefix, block_cache::dual};

/// What the textbook says under a cache: keys and values of every layer as they were when the block
/// was begun.
class cached_textbook {
 public:
  cached_textbook(const engine::masked_config& shape, const engine::checkpoint& weights,
                  const canvas& opening, block_cache kept)
      : shape_(shape), reference_(shape.model, weights), kept_(kept), opening_(opening) {
    const std::vector<int> all = range(0, size());
    for (int layer = 0; layer < shape.model.layers; ++layer) {
      const auto of_all =
          reference_.read(layer, reference_.residuals(opening.tokens, layer, everything), all);
      test::reference_model::keys_values of_kept;
      for (const int position : all) {
        if (!is_kept(position)) { continue; }
        const auto at = static_cast<std::size_t>(position);
        of_kept.keys.push_back(of_all.keys[at]);
        of_kept.values.push_back(of_all.values[at]);
      }
      before_.push_back(of_kept);
    }
    states_ = reference_.hidden(opening.tokens, everything);
  }

  std::vector<vec> logits(const canvas& of) const {
    std::vector<int> positions;
    std::vector<vec> rows;
    for (const int position : range(0, size())) {
      if (is_kept(position)) { continue; }
      positions.push_back(position);
      rows.push_back(reference_.embedding(of.tokens[static_cast<std::size_t>(position)]));
    }
    const std::vector<vec> states = reference_.continued(rows, positions, everything, before_);
    std::vector<vec> out;
    for (const std::int32_t wanted : of.wanted) {
      const int row = wanted - (shape_.shifted ? 1 : 0);
      const auto at = std::find(positions.begin(), positions.end(), row);
      out.push_back(reference_.head(
          at == positions.end() ? states_[static_cast<std::size_t>(row)]
                                : states[static_cast<std::size_t>(at - positions.begin())]));
    }
    return out;
  }

 private:
  static bool everything(std::size_t, std::size_t) { return true; }
  static std::vector<int> range(int first, int last) {
    std::vector<int> out(static_cast<std::size_t>(last - first));
    std::iota(out.begin(), out.end(), first);
    return out;
  }
  int size() const { return static_cast<int>(opening_.tokens.size()); }
  bool is_kept(int position) const {
    return position < opening_.known ||
           (kept_ == block_cache::dual && position >= opening_.block_end);
  }

  engine::masked_config shape_;
  test::reference_model reference_;
  block_cache kept_;
  canvas opening_;
  std::vector<test::reference_model::keys_values> before_;  ///< [layers]
  std::vector<vec> states_;                                 ///< of the opening canvas
};

/// The canvas, asked for the masks of its block only.
canvas in_block(canvas c) {
  std::erase_if(c.wanted, [&](std::int32_t p) { return p < c.known || p >= c.block_end; });
  return c;
}

engine::masked_config full_shape(bool shifted) {
  return test::masked(test::tiny_config(), test::pattern::full, shifted);
}

TEST_CASE("a block cache: logits are those of a textbook whose keys and values are as old") {
  for (const block_cache kept : caches) {
    for (const bool shifted : {false, true}) {
      CAPTURE(static_cast<int>(kept));
      CAPTURE(shifted);
      const engine::masked_config shape = full_shape(shifted);
      const auto weights = test::random_checkpoint(shape.model, engine::dtype::f32);
      engine::block_cached_model m(shape, weights, kept, {.kind = engine::arithmetic::f32});
      const canvas opening = in_block(test::some_canvas(shape, 6, 3));
      const cached_textbook expected(shape, weights, opening, kept);
      const auto first = test::logits(m, canvas_batch().add(0, opening).opening());
      CHECK(test::difference(first, test::textbook(shape, weights, opening)) < 1e-5);
      const canvas next = test::unmasked(opening, 3);
      const auto later = test::logits(m, canvas_batch().add(0, next));
      CHECK(test::difference(later, expected.logits(next)) < 1e-5);
      // That is another model than the one without a cache.
      CHECK(test::difference(later, test::textbook(shape, weights, next)) > 1e-3);
      const int kept_positions =
          kept == block_cache::prefix ? 6 : static_cast<int>(opening.tokens.size()) - 4;
      CHECK(m.length(0) == kept_positions);
    }
  }
}

TEST_CASE("a block cache: logits do not depend on the batch, the threads or what was read before") {
  for (const block_cache kept : caches) {
    for (const bool shifted : {false, true}) {
      CAPTURE(static_cast<int>(kept));
      CAPTURE(shifted);
      const engine::masked_config shape = full_shape(shifted);
      const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
      const canvas a = in_block(test::some_canvas(shape, 6, 3, 1));
      const canvas b = in_block(test::some_canvas(shape, 9, 2, 2));
      const canvas a1 = test::unmasked(a, 3);
      const canvas a2 = test::unmasked(a1, 4);
      const canvas b1 = test::unmasked(b, 5);
      std::vector<std::vector<float>> alone;
      for (const int threads : {1, 2, 3}) {
        engine::block_cached_model m(shape, weights, kept, {.threads = threads, .max_batch = 2});
        const auto opened = test::logits(m, canvas_batch().add(0, a).opening());
        test::logits(m, canvas_batch().add(1, b).opening());
        std::vector<std::vector<float>> each = opened;
        for (const auto& [slot, c] : {std::pair{0, a1}, std::pair{0, a2}, std::pair{1, b1}}) {
          const auto one = test::logits(m, slot, c);
          each.insert(each.end(), one.begin(), one.end());
        }
        auto together = opened;
        for (const auto& row : test::logits(m, canvas_batch().add(0, a1).add(0, a2).add(1, b1))) {
          together.push_back(row);
        }
        CHECK(together == each);
        CHECK(test::logits(m, canvas_batch().add(0, a).opening()) == opened);
        // One slot opens while the other goes on.
        auto mixed = opened;
        for (const auto& row : test::logits(m, canvas_batch().add(1, b1).add(0, a).opening())) {
          mixed.push_back(row);
        }
        CHECK(mixed.size() == opened.size() + b1.wanted.size() + a.wanted.size());
        CHECK(std::equal(
            mixed.begin() + static_cast<std::ptrdiff_t>(opened.size()),
            mixed.begin() + static_cast<std::ptrdiff_t>(opened.size() + b1.wanted.size()),
            each.end() - static_cast<std::ptrdiff_t>(b1.wanted.size())));
        if (alone.empty()) { alone = each; }
        CHECK(each == alone);
      }
    }
  }
}

TEST_CASE("a block cache: passes after the first read the block, and what follows it if need be") {
  const engine::masked_config shape = full_shape(false);
  const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
  const canvas opening = in_block(test::some_canvas(shape, 6, 3));
  const auto size = static_cast<std::uint64_t>(opening.tokens.size());
  const auto layers = static_cast<std::uint64_t>(shape.model.layers);
  for (const block_cache kept : caches) {
    engine::block_cached_model m(shape, weights, kept);
    test::logits(m, canvas_batch().add(0, opening).opening());
    CHECK(m.layer_rows() == size * layers);
    test::logits(m, 0, test::unmasked(opening, 3));
    const std::uint64_t read = kept == block_cache::dual ? 4 : size - 6;
    CHECK(m.layer_rows() == (size + read) * layers);
  }
}

TEST_CASE("a block cache: canvases that break its rules are refused by name") {
  const engine::masked_config shape = full_shape(false);
  const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
  engine::block_cached_model m(shape, weights, block_cache::dual, {.max_batch = 2});
  const canvas opening = in_block(test::some_canvas(shape, 6, 3));
  const canvas next = test::unmasked(opening, 3);
  const auto refused = [&](const canvas_batch& batch, const char* why) {
    CHECK_THROWS_WITH_AS(m.evaluate(batch.view()), why, std::invalid_argument);
  };
  const char* const not_opened =
      "engine::block_cached_model: canvas 0 is of a block that was not opened";
  refused(canvas_batch().add(0, next), not_opened);
  m.evaluate(canvas_batch().add(0, opening).opening().view());
  refused(canvas_batch().add(1, next), not_opened);
  canvas later = next;
  later.known = later.block_end;
  later.block_end += 4;
  refused(canvas_batch().add(0, in_block(later)), not_opened);
  canvas outside = next;
  outside.wanted.push_back(static_cast<std::int32_t>(outside.tokens.size()) - 1);
  refused(canvas_batch().add(0, outside),
          "engine::block_cached_model: canvas 0 is asked for a position outside of its block");
  refused(canvas_batch().add(0, opening).opening().add(0, next),
          "engine::block_cached_model: canvas 0 opens a block and is not alone");
  canvas blockless = next;
  blockless.block_end = blockless.known;
  refused(canvas_batch().add(0, blockless), "engine::block_cached_model: canvas 0 has no block");
  m.release(0);
  CHECK(m.length(0) == 0);
  refused(canvas_batch().add(0, next), not_opened);

  CHECK_THROWS_WITH_AS(
      (engine::block_cached_model{
          test::masked(test::tiny_config(), test::pattern::causal_prefix, false), weights,
          block_cache::prefix}),
      "engine::block_cached_model: the model reads known text causally and caches it as it is",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS((engine::block_cached_model{shape, weights, block_cache::none}),
                       "engine::block_cached_model: nothing is to be kept; that is masked_model",
                       std::invalid_argument);
}

TEST_CASE("a block cache: drafts write what one token a pass writes under the same cache") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const engine::masked_config shape = full_shape(shifted);
    const auto weights = test::random_checkpoint(shape.model, engine::dtype::i8);
    engine::masked_model exact(shape, weights, {.threads = 2, .max_batch = 2});
    const hunch::diffusion::self_speculation<6> drafts;
    const auto without = test::fill_two(exact, drafts, 0).unmaskings;
    for (const block_cache kept : caches) {
      CAPTURE(static_cast<int>(kept));
      engine::block_cached_model m(shape, weights, kept, {.threads = 2, .max_batch = 2});
      const test::filled_texts stepwise = test::fill_two(m, drafts, 0);
      CHECK(stepwise.unmaskings.at(1).size() == 18);
      CHECK(stepwise.unmaskings.at(2).size() == 23);
      CHECK(stepwise.unmaskings != without);  // the cache is an approximation, and is used
      for (const int length : {1, 3, 6}) {
        const test::filled_texts drafted = test::fill_two(m, drafts, length);
        CHECK(drafted.unmaskings == stepwise.unmaskings);
        CHECK(drafted.passes < stepwise.passes);
      }
    }
  }
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <vector>

#include <engine/canvas_head.hpp>
#include <engine/device/canvas_head.hpp>
#include <engine/device/masked_model.hpp>
#include <engine/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/executor/host.hpp>

#include "../support/hidden_host.hpp"
#include "closeness.hpp"
#include "masked_texts.hpp"
#include "team_host.hpp"
#include "tiny_canvas_head.hpp"
#include "tiny_masked.hpp"

/// Heads that draft for masked models, on an executor: they say what those on the CPU say, up to
/// what bfloat16 rounds away, and a loop there unmasks with them what one on the host unmasks.

namespace {

using hunch::executor::host;
using test::canvas;
using test::canvas_batch;
using texts = test::head_texts;
using rows = std::vector<std::vector<float>>;

constexpr engine::device_canvas_options sizes{
    .max_batch = 3, .max_length = 0, .max_canvases = 64, .max_rows = 256, .max_wanted = 256};

template <class E>
struct models {
  engine::device_masked_model<E> target;
  engine::device_canvas_head<E> head;

  explicit models(const test::canvas_head_parts& of, E executor = {})
      : target(of.shape, of.weights, sizes, executor),
        head(of.head_config, of.head_weights, target, sizes) {}
};

void check_close(const rows& got, const rows& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(test::difference(got[i], expected[i]) < test::bf16_tolerance);
  }
}

bool has_no_law(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isnan(x); });
}

}  // namespace

TEST_CASE("device canvas head: logits are the engine's up to bfloat16") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const test::canvas_head_parts with(shifted);
    const texts of(with);
    engine::masked_model cpu_target(with.shape, with.weights,
                                    {.kind = engine::arithmetic::f32, .max_batch = 3});
    engine::canvas_head cpu(with.head_config, with.head_weights, cpu_target,
                            {.kind = engine::arithmetic::f32, .max_batch = 3});
    models<host> m(with);
    const auto compare = [&](const canvas_batch& pass, const std::vector<std::int32_t>& kept,
                             const canvas_batch& now) {
      test::observe(cpu, cpu_target, pass, kept);
      test::observe(m.head, m.target, pass, kept);
      const rows expected = test::logits(cpu, now);
      check_close(test::logits(m.head, now), expected);
      // The next draft of the same round.
      check_close(test::logits(m.head, now), expected);
    };
    compare(canvas_batch().add(1, of.first_then), {0}, canvas_batch().add(1, of.first_now));
    // Where rows are shifted, the law of the first position is in the known text.
    const canvas opening = of.first_before.asking({9, 11, 12, 14});
    compare(canvas_batch().add(1, opening), {0},
            canvas_batch().add(1, test::unmasked(opening, 4, 1)));
    // A canvas whose drafts have filled the first block.
    canvas filled = of.first_then;
    for (const hunch::token t : {3, 4}) { filled = test::unmasked(filled, t); }
    compare(canvas_batch().add(1, of.first_then).add(1, filled), {1},
            canvas_batch().add(1, test::unmasked(test::unmasked(filled, 5), 6)));
    canvas_batch pass;
    pass.add(2, of.first_before).add(2, test::unmasked(of.first_before, 6));
    pass.add(2, of.first_then).add(1, of.second_then);
    compare(pass, {2, 3}, canvas_batch().add(2, of.first_now).add(1, of.second_now));
  }
}

TEST_CASE("device canvas head: the shipped head") {
  const auto models_folder = std::filesystem::path(HUNCH_TEST_MODELS);
  const auto directory = models_folder / "masked";
  auto cpu_target = engine::masked_model::load(directory, {.kind = engine::arithmetic::f32});
  auto cpu = engine::canvas_head::load(models_folder / "canvas_head", directory, cpu_target,
                                       {.kind = engine::arithmetic::f32});
  engine::device_canvas_options some = sizes;
  some.max_length = 64;
  auto target = engine::device_masked_model<host>::load(directory, some);
  auto head = engine::device_canvas_head<host>::load(models_folder / "canvas_head", directory,
                                                     target, some);
  const canvas asked = test::some_canvas(cpu_target.shape(), 9, 3);
  test::observe(cpu, cpu_target, canvas_batch().add(0, asked), {0});
  test::observe(head, target, canvas_batch().add(0, asked), {0});
  const canvas now = test::unmasked(asked, 500);
  check_close(test::logits(head, 0, now), test::logits(cpu, 0, now));
  CHECK_THROWS_AS(
      engine::device_canvas_head<host>::load(models_folder / "eagle", directory, target),
      std::runtime_error);
}

TEST_CASE("device canvas head: a canvas among others, and what was not observed") {
  const test::canvas_head_parts with;
  const texts of(with);
  models<host> m(with);
  test::observe(m.head, m.target, canvas_batch().add(0, of.second_then), {0});
  const rows second = test::logits(m.head, 0, of.second_now);
  test::observe(m.head, m.target, canvas_batch().add(0, of.first_then), {0});
  rows both = test::logits(m.head, 0, of.first_now);
  both.insert(both.end(), second.begin(), second.end());
  models<host> other(with);
  canvas_batch pass;
  pass.add(2, of.first_before).add(2, of.first_then).add(1, of.second_then);
  test::observe(other.head, other.target, pass, {1, 2, -1});
  const auto now = canvas_batch().add(2, of.first_now).add(1, of.second_now);
  CHECK(test::logits(other.head, now) == both);
  // What a head says leaves alone what its target has cached.
  CHECK(other.target.length(2) == of.first_then.known);
  CHECK(test::logits(other.target, pass) == test::logits(m.target, pass));

  for (const auto& row : test::logits(other.head, 0, of.first_now)) { CHECK(has_no_law(row)); }
  other.head.release(2);
  for (const auto& row : test::logits(other.head, 2, of.first_now)) { CHECK(has_no_law(row)); }
  CHECK(test::logits(other.head, 1, of.second_now) == second);
  other.head.release(-1);
  other.head.release(3);
}

TEST_CASE("device canvas head: what does not fit its target is refused") {
  const test::canvas_head_parts with;
  engine::device_masked_model<host> target(with.shape, with.weights, sizes);
  const auto refused = [&](auto&& change) {
    engine::canvas_head_config other = with.head_config;
    change(other);
    CHECK_THROWS_AS(engine::device_canvas_head(other, with.head_weights, target, sizes),
                    std::invalid_argument);
  };
  refused([](auto& c) { c.model.vocab_size = 74; });
  refused([](auto& c) { c.cached_layers = {1, 3}; });
  const engine::device_canvas_head first(with.head_config, with.head_weights, target, sizes);
  refused([](auto& c) { c.target_layer = 1; });
  CHECK_THROWS_AS(engine::device_canvas_head(with.head_config, with.weights, target, sizes),
                  std::runtime_error);
}

TEST_CASE("device canvas head: a target keeps residuals as long as a head reads them") {
  test::canvas_head_parts with;
  const texts of(with);
  engine::device_masked_model<host> target(with.shape, with.weights, sizes);
  const auto make = [&] {
    return engine::device_canvas_head(with.head_config, with.head_weights, target, sizes);
  };
  const auto says = [&](auto& head) {
    test::observe(head, target, canvas_batch().add(0, of.first_then), {0});
    return test::logits(head, 0, of.first_now);
  };
  rows expected;
  {
    auto first = make();
    expected = says(first);
    const auto second = make();
    auto moved = std::move(first);
    CHECK(says(moved) == expected);
  }
  CHECK(target.parts().kept_before == -1);
  // Nor does one that is not made.
  engine::device_canvas_options none = sizes;
  none.max_canvases = 0;
  CHECK_THROWS_AS(engine::device_canvas_head(with.head_config, with.head_weights, target, none),
                  std::invalid_argument);
  CHECK(target.parts().kept_before == -1);
  const std::int32_t layer = with.head_config.target_layer;
  with.head_config.target_layer = layer - 1;
  auto other = make();
  CHECK(target.parts().kept_before == layer - 1);
  CHECK(says(other) != expected);
  {
    const auto again = make();
    with.head_config.target_layer = layer;
    CHECK_THROWS_AS(make(), std::invalid_argument);
  }
  CHECK(target.parts().kept_before == layer - 1);  // for the one that is left
}

TEST_CASE("device canvas head: what is refused says by whom") {
  const test::canvas_head_parts with;
  engine::device_canvas_options few = sizes;
  few.max_canvases = 1;
  engine::device_masked_model<host> target(with.shape, with.weights, few);
  engine::device_canvas_head head(with.head_config, with.head_weights, target, few);
  const texts of(with);
  const auto pass = canvas_batch().add(0, of.first_then).add(1, of.second_then);
  CHECK_THROWS_WITH_AS(test::logits(head, pass),
                       "engine::device_canvas_head: a pass of 2 canvases: raise "
                       "device_canvas_options::max_canvases",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(test::logits(target, pass),
                       "engine::device_masked_model: a pass of 2 canvases: raise "
                       "device_canvas_options::max_canvases",
                       std::invalid_argument);
}

/// What a pass over canvases computed is of positions, so that it has no status of a row.
template <class States>
concept HasStatus = requires(const States& s) {
  s.status(0);
};
static_assert(HasStatus<engine::device::row_states>);
static_assert(!HasStatus<engine::device::canvas_states>);

TEST_CASE("device canvas head: a loop on the executor unmasks what one on the host unmasks") {
  for (const bool shifted : {false, true}) {
    CAPTURE(shifted);
    const test::canvas_head_parts with(shifted, engine::dtype::i8);
    models<host> m(with);
    models<hunch::test::hidden_host> hidden(with);
    const hunch::diffusion::self_speculation<6> own;
    const auto stepwise = test::fill_two(m.target, own, 0).unmaskings;
    CHECK(stepwise.at(1).size() == 18);
    CHECK(stepwise.at(2).size() == 23);
    for (const int length : {0, 3, 6}) {
      CAPTURE(length);
      const auto check = [&](auto& of, auto executor) {
        const auto by_itself = test::fill_two_in_a_loop(executor, of.target, own, length);
        CHECK(by_itself.unmaskings == stepwise);
        CHECK((by_itself.accepted > 0) == (length > 0));
        const auto drafts = hunch::diffusion::drafted_by<6>(of.head);
        const auto by_head = test::fill_two_in_a_loop(executor, of.target, drafts, length);
        CHECK(by_head.unmaskings == stepwise);
        const auto on_host =
            test::fill_two(m.target, hunch::diffusion::drafted_by<6>(m.head), length);
        CHECK(by_head.accepted == on_host.accepted);
      };
      check(m, host{});
      check(hidden, hunch::test::hidden_host{});
    }
  }
  // Another pattern of attention, for which nothing is cached.
  test::canvas_head_parts full;
  full.shape.pattern = test::pattern::full;
  engine::device_masked_model<hunch::test::hidden_host> target(full.shape, full.weights, sizes);
  engine::device_masked_model<host> same(full.shape, full.weights, sizes);
  const hunch::diffusion::self_speculation<3> own;
  const auto expected = test::fill_two(same, own, 0).unmaskings;
  CHECK(test::fill_two_in_a_loop(hunch::test::hidden_host{}, target, own, 3).unmaskings ==
        expected);
}

TEST_CASE("device canvas head: teams of threads compute the same bits") {
  const test::canvas_head_parts with;
  const texts of(with);
  const auto all = [&](auto executor) {
    models m(with, executor);
    test::observe(m.head, m.target, canvas_batch().add(2, of.first_before).add(1, of.second_then),
                  {0, 1});
    const auto now = canvas_batch().add(2, of.first_now).add(1, of.second_now);
    return test::logits(m.head, now);
  };
  CHECK(all(test::team_host<3>{}) == all(host{}));
}

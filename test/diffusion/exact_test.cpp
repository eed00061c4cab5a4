// SPDX-License-Identifier: Apache-2.0

// Self-speculation unmasks what decoding one token a pass unmasks, positions and tokens in their
// order: over every canvas of up to six positions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/canvas/right_shifted.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include "../support/policies.hpp"
#include "every_canvas.hpp"

namespace hunch::test::exact_test {
namespace {

/// Token 1 is the mask, tokens 0, 2, ..., are what there is to be unmasked.
constexpr canvas_world tied_world{{3, 11, flavour::tied}};
constexpr canvas_world smooth_world{{3, 12, flavour::smooth}};

void check_released(bool keeps_anything) { CHECK(!keeps_anything); }

template <std::int32_t N, class Model, class O>
void run_drafts(const canvas_world& world, canvas_task like, double spread, tally& sum) {
  for (const double temperature : {0.0, 1.0}) {
    Model model{world};
    auto d = canvas_decoder<N>(model, 1, O{}, diffusion::verifier::stepwise_exact{}, fill_sampler{},
                               spread);
    static_assert(decltype(d)::lossless);
    like.temperature = temperature;
    fill_every_canvas(d, world, 6, like, sum);
    check_released(model.keeps_anything());
  }
}

template <class Model, class O = diffusion::order::confidence>
tally run_model(const canvas_world& world, rank_by order = rank_by::confidence,
                bool cached = false) {
  tally sum;
  canvas_task like;
  like.order = order;
  like.cached = cached;
  run_drafts<0, Model, O>(world, like, diffusion::default_spread, sum);
  for (const double spread : {0.0, diffusion::default_spread}) {
    run_drafts<1, Model, O>(world, like, spread, sum);
    run_drafts<2, Model, O>(world, like, spread, sum);
    run_drafts<3, Model, O>(world, like, spread, sum);
    run_drafts<4, Model, O>(world, like, spread, sum);
  }
  MESSAGE(sum.runs << " runs, " << sum.accepted << " drafts accepted, " << sum.refused
                   << " refused");
  return sum;
}

void check(const tally& sum, std::int64_t least = 1000) {
  CHECK(sum.wrong == 0);
  CHECK(sum.accepted > least);
  CHECK(sum.refused > least);
}

TEST_CASE("every canvas, with ties") { check(run_model<toy_masked<double>>(tied_world)); }

TEST_CASE("every canvas, without ties") { check(run_model<toy_masked<double>>(smooth_world)); }

/// Whether a run wrote nothing but one of the k most probable tokens of a row that has a law, and
/// has ended where decoding one token a pass would.
bool is_sound(const canvas_world& world, std::int32_t k, const canvas_task& task,
              const fill_result& found) {
  canvas_task rest = task;
  for (const diffusion::unmasking& w : found.unmaskings) {
    status error = status::ok;
    const std::vector<double> weights =
        textbook::weights(world.logits(rest.canvas, w.position), world.mask, 1.0, error);
    if (error != status::ok) { return false; }
    const double mine = weights[static_cast<std::size_t>(w.t)];
    std::int32_t ahead = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      const bool ties = weights[t] == mine && t < static_cast<std::size_t>(w.t);
      ahead += weights[t] > mine || ties ? 1 : 0;
    }
    if (!(mine > 0.0) || ahead >= k) { return false; }
    rest.canvas[static_cast<std::size_t>(w.position)] = w.t;
  }
  const textbook_result then = fill_stepwise(world, rest);
  return then.unmaskings.empty() && then.canvas == found.canvas && then.failed == found.failed &&
         then.failed_position == found.failed_position;
}

TEST_CASE("every canvas, where some rows have no law") {
  constexpr canvas_world damaged{{3, 12, flavour::smooth, 0, nullptr, 17}};
  using cached = toy_masked<double, cache_kind::of_blocks>;
  check(run_model<toy_masked<double>>(damaged), 300);
  check(run_model<cached>(damaged, rank_by::confidence, true), 300);
  check(run_model<toy_masked<double>, diffusion::order::left_to_right>(damaged, rank_by::position),
        300);
  check(run_model<toy_masked<double>, diffusion::order::entropy>(damaged, rank_by::entropy), 300);

  // A rule that is not lossless, of which less can be said.
  constexpr std::int32_t k = 2;
  constexpr canvas_world larger{{4, 12, flavour::smooth, 0, nullptr, 17}};
  toy_masked<double> model{larger};
  auto d =
      chain_decoder<3>(model, 1, diffusion::order::confidence{}, diffusion::verifier::top_k{k});
  tally sum;
  std::int64_t later_ones = 0;  // the control: a rule that takes one is told apart
  fill_every_canvas(d, larger, 6, {}, sum, [&](const canvas_task& task, const fill_result& found) {
    later_ones += is_sound(larger, k - 1, task, found) ? 0 : 1;
    return is_sound(larger, k, task, found);
  });
  check(sum, 100);
  CHECK(later_ones > 10);

  // Every policy that the headers define was there.
  for (const char* const folder : {"diffusion/order", "diffusion/verifier"}) {
    const names policies = policies_in(folder);
    CHECK(policies.size() >= 2);
    for (const std::string& policy : policies) {
      CAPTURE(policy);
      CHECK(any_row_has({policy}));
    }
  }
  CHECK_FALSE(any_row_has({"diffusion::order::magic"}));
}

TEST_CASE("every canvas, in single precision") { check(run_model<toy_masked<float>>(tied_world)); }

TEST_CASE("every canvas, under a block cache") {
  check(
      run_model<toy_masked<double, cache_kind::of_blocks>>(tied_world, rank_by::confidence, true));
}

TEST_CASE("every canvas, from left to right and by entropy") {
  check(run_model<toy_masked<double>, diffusion::order::left_to_right>(tied_world,
                                                                       rank_by::position));
  check(run_model<toy_masked<double>, diffusion::order::entropy>(smooth_world, rank_by::entropy));
}

/// A model whose rows are about the next position, put right.
struct put_right : diffusion::right_shifted<toy_masked<double, cache_kind::none, 1>> {
  explicit put_right(const canvas_world& world)
      : right_shifted(toy_masked<double, cache_kind::none, 1>(world)) {}
  static bool keeps_anything() { return false; }
};

TEST_CASE("every canvas, by a model with right-shifted rows") {
  check(run_model<put_right>(tied_world));
}

}  // namespace
}  // namespace hunch::test::exact_test

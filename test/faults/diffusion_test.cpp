// SPDX-License-Identifier: Apache-2.0

// Exceptions in a round over canvases: the state is that before the round, and a repetition unmasks
// the same.

#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/length/ewma.hpp>
#include "../diffusion/fill.hpp"
#include "allocations.hpp"

namespace hunch::test {
namespace {

constexpr canvas_world world{{5, 71, flavour::smooth}, 2, nullptr, 5};

/// A model whose allocations do not count.
template <cache_kind Cache>
struct quiet_masked : toy_masked<double, Cache> {
  using base = toy_masked<double, Cache>;
  using base::base;
  typename base::evaluation evaluate(const diffusion::canvases& asked) {
    const allocations::pause here;
    return base::evaluate(asked);
  }
  void release(std::int32_t slot) noexcept {
    const allocations::pause here;
    base::release(slot);
  }
};

std::vector<canvas_task> some_tasks() {
  std::vector<canvas_task> tasks{{std::vector<token>(12, 2), 2, 4},
                                 {std::vector<token>(9, 2), 1, 5}};
  tasks[0].canvas[0] = tasks[0].canvas[1] = tasks[1].canvas[0] = 1;
  tasks[1].temperature = 1.0;
  tasks[1].seed = 4;
  return tasks;
}

template <class Model>
auto decoder_over(Model& model) {
  return diffusion::decoder(
      model, diffusion::order::confidence{}, fill_sampler{}, diffusion::verifier::stepwise_exact{},
      diffusion::self_speculation<3, length::ewma>{}, diffusion::decoder_options{.max_batch = 2});
}

using round_of = std::vector<diffusion::unmasking>;

/// What is unmasked round by round; a round that throws is repeated.
template <class Decoder, class Exception>
std::map<request_id, std::vector<round_of>> with_retries(Decoder& d, std::int64_t& thrown,
                                                         const Exception& planned) {
  std::map<request_id, std::vector<round_of>> rounds;
  for (const canvas_task& task : some_tasks()) { add(d, task); }
  while (d.running() > 0) {
    const auto stats = d.stats();
    try {
      planned(d, [&](const diffusion::emission& e) {
        rounds[e.id].push_back({e.unmaskings.begin(), e.unmaskings.end()});
      });
    } catch (const std::exception&) {
      ++thrown;
      CHECK(d.running() > 0);
      CHECK(d.stats().steps == stats.steps);
      CHECK(d.stats().target_passes == stats.target_passes);
    }
  }
  return rounds;
}

const auto plainly = [](auto& d, const auto& note) {
  for (const diffusion::emission& e : d.step()) { note(e); }
};

template <cache_kind Cache>
void throw_everywhere() {
  std::map<request_id, std::vector<round_of>> expected;
  std::int64_t calls = 1;
  for (std::int64_t at = -1; at < calls; ++at) {
    CAPTURE(at);
    toy_masked<double, Cache> model{world};
    failure_plan plan{0, at};
    model.failures = &plan;
    auto d = decoder_over(model);
    std::int64_t thrown = 0;
    const auto rounds = with_retries(d, thrown, plainly);
    if (at < 0) {
      expected = rounds;
      calls = plan.calls;
      CHECK(calls > 8);
    } else {
      CHECK(thrown == 1);
      CHECK(rounds == expected);
    }
    CHECK(!model.keeps_anything());
  }
}

TEST_CASE("a masked model that throws at any call, before or after its work") {
  throw_everywhere<cache_kind::none>();
  throw_everywhere<cache_kind::of_blocks>();
}

/// Drafts come from a model of the same mind.
auto drafted_decoder_over(quiet_masked<cache_kind::none>& model,
                          quiet_masked<cache_kind::none>& draft) {
  draft.drafts = true;
  return diffusion::decoder(
      model, diffusion::order::confidence{}, fill_sampler{}, diffusion::verifier::stepwise_exact{},
      diffusion::drafted_by<3>(draft, length::ewma{}), diffusion::decoder_options{.max_batch = 2});
}

template <class Decoder>
void check_rounds(Decoder& d) {
  std::int64_t rounds = 0;
  std::int64_t thrown = 0;
  with_retries(d, thrown, [&](auto& of, const auto& note) {
    std::span<const diffusion::emission> found;
    CHECK(allocations::during([&] { found = of.step(); }) == 0);
    for (const diffusion::emission& e : found) { note(e); }
    ++rounds;
  });
  CHECK(rounds > 2);
  CHECK(thrown == 0);
  const request_id id = add(d, some_tasks()[0]);
  CHECK(allocations::during([&] { d.cancel(id); }) == 0);
}

TEST_CASE("a round over canvases allocates nothing") {
  quiet_masked<cache_kind::none> model{world};
  auto d = decoder_over(model);
  check_rounds(d);
  quiet_masked<cache_kind::none> draft{world};
  auto drafted = drafted_decoder_over(model, draft);
  check_rounds(drafted);
  CHECK(drafted.stats().accepted > 0);
}

TEST_CASE("an add of a canvas that runs out of memory leaves no trace") {
  quiet_masked<cache_kind::none> model{world};
  auto d = decoder_over(model);
  canvas_task task = some_tasks()[0];
  task.stop_tokens = {4};
  std::int64_t failures = 0;
  for (std::int64_t at = 0;; ++at) {
    try {
      allocations::during([&] { add(d, task); }, at);
      break;
    } catch (const std::bad_alloc&) {
      ++failures;
      CHECK(d.running() == 0);
      CHECK(d.step().empty());
    }
  }
  CHECK(failures >= 3);
  CHECK(d.running() == 1);
}

TEST_CASE("an answer that throws leaves its slot free") {
  toy_masked<double> model{world};
  failure_plan plan{0, 3};
  model.failures = &plan;
  auto d = canvas_decoder<3>(model);
  const std::vector<token> prompt{1};
  CHECK_THROWS_AS(d.generate(prompt, {.max_new_tokens = 6}), planned_failure);
  CHECK(d.running() == 0);
  CHECK(d.generate(prompt, {.max_new_tokens = 6}).tokens.size() == 6);
}

}  // namespace
}  // namespace hunch::test

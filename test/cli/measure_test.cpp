// SPDX-License-Identifier: Apache-2.0

// Runs of requests: those that do not end well, and those that name the costs of drafting.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/hunch.hpp>
#include "../support/resident_models.hpp"
#include "../support/taught_meter.hpp"
#include "../support/toy_model.hpp"
#include "generate/draft_length.hpp"
#include "generate/forecast.hpp"
#include "generate/measure.hpp"
#include "generate/run_resident.hpp"

namespace hunch::test {
namespace {

TEST_CASE("what was accepted before a bad row is shown before the error is told") {
  constexpr std::int32_t vocab = 5;
  // The draft has the target's laws, so that drafts are accepted, and no bad rows.
  toy_world broken{vocab, 81, flavour::sharp};
  const toy_world sound = broken;
  broken.bad = 7;
  std::int64_t with_text = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    toy_target<> target{broken};
    toy_draft<> draft{sound};
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::full{vocab},
              sampler::pipeline<sampler::temperature>{},
              verifier::rejection{},
              decoder_options{.max_batch = 1}};
    generation_options options;
    options.max_new_tokens = 64;
    options.seed = seed;
    std::vector<token> shown;
    CHECK_THROWS_AS(generate::run_requests(
                        d, {{1, 2}}, options, 1, [](auto&) {},
                        [&](std::size_t, token t, origin) { shown.push_back(t); }),
                    std::runtime_error);
    CHECK(std::ssize(shown) == d.stats().emitted);
    with_text += d.last_step().emitted > 0 ? 1 : 0;
  }
  CHECK(with_text > 4);
}

TEST_CASE("a loop in which a request has failed can be used again") {
  constexpr std::int32_t vocab = 5;
  toy_world broken{vocab, 81, flavour::sharp};
  broken.bad = 3;  // some rows: the last requests run on when the first has failed
  toy_target<> toy{broken};
  resident_target<double> target{toy, 3 * 1 + 8};
  resident_decoder d{target,
                     drafter::none{},
                     selector::full{vocab},
                     sampler::pipeline<sampler::temperature>{},
                     verifier::rejection{},
                     resident_options{.max_batch = 3, .max_length = 80, .chunk = 8}};
  const auto run = [&](std::uint64_t seed, std::int32_t length) {
    generation_options options;
    options.max_new_tokens = length;
    options.seed = seed;
    return generate::run_resident(
        d, {{1, 2}, {2, 2}, {0, 4}}, options, 3, [] { return true; },
        [](std::size_t, token, origin) {});
  };
  std::vector<std::vector<std::vector<token>>> sound;
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 400 && seeds.size() < 4; seed += 3) {
    try {
      sound.push_back(run(seed, 3).tokens);
      seeds.push_back(seed);
    } catch (const std::runtime_error&) {}
  }
  REQUIRE(seeds.size() == 4);
  for (std::size_t n = 0; n < seeds.size(); ++n) {
    CHECK_THROWS_WITH_AS(run(7 + n, 64), "a request failed: invalid_logits", std::runtime_error);
    CHECK(d.running() == 0);
    CHECK(run(seeds[n], 3).tokens == sound[n]);
  }
  toy.cache().check();
}

TEST_CASE("a short run times plain steps and drafts of every length") {
  constexpr std::int32_t vocab = 5;
  const toy_world world{vocab, 81, flavour::sharp};
  for (const std::int32_t batch : {1, 3}) {
    CAPTURE(batch);
    toy_target<> target{world};
    toy_draft<> draft{world};
    length::meter meter(4);
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<4>{}},
              selector::full{vocab},
              sampler::pipeline<sampler::temperature>{},
              verifier::rejection{},
              decoder_options{.max_batch = batch}};
    generation_options options;
    options.max_new_tokens = 64;
    const generate::costs costs = generate::calibrate(meter, d, {{1, 2}, {3}}, options, batch);
    // In units of a plain step: 0 where none was timed.
    CHECK(costs.draft > 0.0);
    REQUIRE(costs.rows.size() == 5);
    CHECK(costs.rows.at(1) == 1.0);
    CHECK(costs.rows.at(5) >= costs.rows.at(2));
    CHECK(meter.prices(batch).rows.size() == 5);
    CHECK(costs.alpha > 0.3);
    CHECK(costs.alpha < 1.0);
  }
}

TEST_CASE("a forecast prices steps by what they did, not by what they took") {
  length::meter meter(8);
  // A plain step takes 1 ms; one of k levels 0.4 ms, 0.1 ms for each level and 0.2 for each row.
  const auto step = [](std::int32_t levels, std::int32_t emitted) {
    step_summary s;
    s.sequences = 1;
    s.draft_length = s.deepest = s.deepest_computed = levels;
    s.levels = s.computed = s.drafted = s.tested = levels;
    s.accepted = emitted - 1;
    s.emitted = emitted;
    s.draft_seconds = levels > 0 ? 4e-4 + 1e-4 * levels : 0.0;
    s.target_seconds = 1e-3 + 2e-4 * levels;
    return s;
  };
  generate::forecast nothing;
  nothing.add(meter, step(2, 2));
  CHECK(nothing.gain() == 1.0);
  for (int i = 0; i < 8; ++i) { meter.learn(step(0, 1)); }
  for (int i = 0; i < 6; ++i) {
    for (const std::int32_t levels : {1, 2, 4}) { meter.learn(step(levels, 2)); }
  }
  generate::forecast expected;
  double plain = 0.0;
  double drafting = 0.0;
  for (const std::int32_t levels : {1, 4, 4, 2, 1, 4}) {
    step_summary slow = step(levels, levels);
    plain += 1e-3 * levels;
    drafting += slow.seconds();
    slow.target_seconds *= 50.0;  // for others have taken its time
    expected.add(meter, slow);
  }
  step_summary prompt = step(4, 1);
  prompt.prompt_rows = 100;
  expected.add(meter, prompt);
  CHECK(expected.gain() == doctest::Approx(plain / drafting));
}

// What is chosen is asked in each step: a policy that keeps what it was made of drafts by the
// prices of a meter that knew nothing.
TEST_CASE("a chosen length is what the choice is now, and what its meter has learnt by then") {
  length::meter meter(8);
  generate::any_length choice(length::metered{meter});
  generate::chosen_length chosen(&choice);
  generate::chosen_length::memory m;
  meter.next(1);
  chosen.refresh();
  const generate::chosen_length before = chosen;
  teach(meter, 0.3, 0.1);
  chosen.refresh();
  // How often a policy goes on, over levels of every probability.
  const auto goes_on = [](const auto& policy) {
    typename std::remove_cvref_t<decltype(policy)>::memory of{};
    std::vector<bool> answers;
    for (std::int32_t p = 1; p < 20; ++p) {
      policy.begin(of, 8);
      for (std::int32_t depth = 1; depth < 8; ++depth) {
        answers.push_back(policy.continues(
            of, {.depth = depth, .probability = 0.05 * p, .rows = depth + 1, .max_rows = 9}));
      }
    }
    return answers;
  };
  CHECK(goes_on(chosen) == goes_on(meter.policy()));
  CHECK(goes_on(before) != goes_on(meter.policy()));
  choice = length::fixed{3};
  chosen.refresh();
  CHECK(chosen.begin(m, 8) == 3);

  // And in a decoder.
  constexpr std::int32_t vocab = 5;
  toy_target<> target{{vocab, 81, flavour::sharp}};
  toy_draft<> draft{{vocab, 81, flavour::sharp}};
  decoder d{
      target, drafter::autoregressive{draft, tree::chain<4>{}, generate::chosen_length(&choice)},
      selector::full{vocab}, sampler::pipeline<sampler::temperature>{}, verifier::rejection{}};
  const auto drafted_of = [&](std::int32_t levels) {
    choice = length::fixed{levels};
    d.reset_stats();
    generation_options options;
    options.max_new_tokens = 12;
    std::int32_t written = 0;
    for ([[maybe_unused]] const token t : d.generate(std::vector<token>{1}, options)) { ++written; }
    CHECK(written == 12);
    return d.stats().drafted;
  };
  CHECK(drafted_of(0) == 0);
  CHECK(drafted_of(2) > 0);
  CHECK(drafted_of(0) == 0);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// What grammars, stop strings and log-probabilities cost: nothing in steps of requests that do not
// use them, and in the others a known number of launches, copies and waits.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/counting_host.hpp"
#include "../support/hidden_host.hpp"
#include "../support/resident_models.hpp"
#include "../support/stages.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr std::int32_t chunk = 8;
constexpr std::int32_t levels = 3;

/// The stages of `every_stage` that ask nothing of the host.
using stages_without_grammars =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::temperature, sampler::top_k,
                      sampler::top_p, sampler::min_p>;

/// Allows everything, so that a request writes the text that it writes without.
struct any_text {
  using state = bool;
  static state start() { return true; }
  static state advance(state s, token) noexcept { return s; }
  static void allowed(state, std::uint32_t* words) noexcept {
    for (std::int32_t w = 0; w < allowed_words(vocab); ++w) { words[w] = ~0u; }
  }
};
static_assert(Grammar<any_text>);

/// A step of two requests, of which the second runs for a while.
struct step_cost {
  executor_calls calls;
  bool second = false;      ///< whether it ran
  std::int32_t levels = 0;  ///< of its draft
  std::int32_t deepest = 0;
};

decoder_options with_nothing(bool times_phases) {
  return {.max_batch = 2,
          .chunk = chunk,
          .max_length = 64,
          .max_log_probabilities = -1,
          .times_phases = times_phases,
          .token_text = {}};
}
decoder_options with_everything(bool times_phases) {
  decoder_options o = with_nothing(times_phases);
  o.max_log_probabilities = 3;
  o.token_text = [](token) { return std::string_view("a"); };
  return o;
}

/// The steps of a decoder whose first request asks for nothing and goes on to the end; the second
/// comes and goes in between.
template <class S>
std::vector<step_cost> steps_of(auto executor, auto& target, auto& draft,
                                const decoder_options& options, const generation_options& second,
                                std::int64_t cancelled_in) {
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<levels>{}},
            selector::full{vocab},
            S{},
            verifier::rejection{},
            options,
            random_source<>{},
            executor};
  d.add(std::vector<token>{1, 2, 3}, {.max_new_tokens = 40, .seed = 1});
  std::vector<step_cost> steps;
  request_id of_second = 0;
  while (d.running() > 0) {
    const std::int64_t now = std::ssize(steps);
    if (now == 2) { of_second = d.add(std::vector<token>{4, 5}, second); }
    if (now == cancelled_in) { CHECK(d.cancel(of_second)); }
    const executor_calls before = *executor.calls;
    step_cost step;
    for (const emission& e : d.step()) {
      if (e.id != of_second) { continue; }
      step.second = true;
      step.levels = e.drafted;
    }
    step.calls = *executor.calls - before;
    step.deepest = d.last_step().deepest;
    steps.push_back(step);
  }
  return steps;
}

/// The same on a host of this kind.
template <class Host, class S>
std::vector<step_cost> steps_on(const decoder_options& options, const generation_options& second,
                                std::int64_t cancelled_in = -1) {
  const counting<Host> executor;
  toy_target<float> target{{vocab, 91, flavour::smooth}};
  toy_draft<float> draft{{vocab, 91, flavour::sharp}};
  if constexpr (host_reads<step_memory<Host>>) {
    return steps_of<S>(executor, target, draft, options, second, cancelled_in);
  } else {
    resident_target<float> padded(target, 2 * (levels + 1 + chunk));
    resident_draft<float> drafts(draft);
    return steps_of<S>(executor, padded, drafts, options, second, cancelled_in);
  }
}

generation_options second_asks() { return {.max_new_tokens = 12, .seed = 2}; }

TEST_CASE_TEMPLATE("steps of requests that ask for nothing cost what they cost without", Host,
                   executor::host, hidden_host) {
  for (const bool times_phases : {false, true}) {
    CAPTURE(times_phases);
    const auto without =
        steps_on<Host, stages_without_grammars>(with_nothing(times_phases), second_asks());
    const auto with = steps_on<Host, every_stage>(with_everything(times_phases), second_asks());
    REQUIRE(with.size() == without.size());
    REQUIRE(with.size() > 8);
    for (std::size_t i = 0; i < with.size(); ++i) {
      CAPTURE(i);
      CHECK(with[i].calls == without[i].calls);
      CHECK(with[i].calls.uploads == 0);
      CHECK(with[i].calls.downloads == 0);
      if (host_reads<step_memory<Host>>) { continue; }
      // Nobody looks into the step: it is waited for at its end, and where phases are timed.
      CHECK(with[i].calls.waits == (times_phases ? 3 : 1));
      CHECK(with[i].calls.launches <= 12 + 6 * levels);
    }
  }
}

/// Compares the steps of a decoder whose second request uses something with those of one whose
/// second request does not, which are the same steps. \param extra(step) what is asked for more
/// while it runs.
template <class Host>
void costs_more(const std::function<void(generation_options&)>& use,
                const std::function<executor_calls(const step_cost&)>& extra) {
  generation_options using_it = second_asks();
  use(using_it);
  for (const std::int64_t cancelled_in : {-1, 4}) {
    CAPTURE(cancelled_in);
    const auto plain =
        steps_on<Host, every_stage>(with_everything(false), second_asks(), cancelled_in);
    const auto steps = steps_on<Host, every_stage>(with_everything(false), using_it, cancelled_in);
    REQUIRE(steps.size() == plain.size());
    std::int32_t ran = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      REQUIRE(steps[i].second == plain[i].second);
      REQUIRE(steps[i].levels == plain[i].levels);
      ran += steps[i].second ? 1 : 0;
      const executor_calls more = steps[i].calls - plain[i].calls;
      const executor_calls expected = steps[i].second ? extra(steps[i]) : executor_calls{};
      CHECK(more.launches == expected.launches);
      CHECK(more.uploads == expected.uploads);
      CHECK(more.downloads == expected.downloads);
      CHECK(more.waits == expected.waits);
    }
    CHECK(ran >= 2);
    CHECK(ran + 4 < std::ssize(steps));  // there are steps before and after
  }
}

TEST_CASE_TEMPLATE("log-probabilities cost a launch, and stop strings a wait", Host, executor::host,
                   hidden_host) {
  costs_more<Host>([](generation_options& o) { o.log_probabilities = 2; },
                   [](const step_cost&) { return executor_calls{.launches = 1}; });
  costs_more<Host>([](generation_options& o) { o.stop_strings = {"b"}; },
                   [](const step_cost&) { return executor_calls{.waits = 1}; });
}

TEST_CASE("a grammar costs a wait wherever nodes have come to the tree, or copies of them") {
  const auto use = [](generation_options& o) { o.grammar = any_text{}; };
  // When trees have roots, after each level, and when they are whole.
  costs_more<executor::host>(
      use, [](const step_cost& step) { return executor_calls{.waits = 2 + step.deepest}; });
  // There the host asks for the number of nodes; where there are new ones, for all tokens and
  // parents; and says what may follow. Only of the tree of a request that has a grammar.
  costs_more<hidden_host>(use, [](const step_cost& step) {
    const std::int64_t grown = 1 + step.levels;
    return executor_calls{.uploads = grown, .downloads = 2 + levels + 2 * grown};
  });
}

}  // namespace
}  // namespace hunch::test

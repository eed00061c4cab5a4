// SPDX-License-Identifier: Apache-2.0

// Whole loops on teams of threads, driven by the host or repeated by the executor: the texts of one
// thread. Built a second time under ThreadSanitizer, so that every body of a step is run there by
// blocks and by clusters.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/one_of.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../exact/selectors.hpp"
#include "../support/erased_decoders.hpp"
#include "../support/hidden_host.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/stages.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test::loops_of_threads_test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr std::int32_t chunk = 3;

const threads block{{}, 1, 3};
const threads cluster{{}, 2, 2};

/// Prompts of one and of more chunks, texts that stop, and parameters of stages that a sampler has.
template <class S>
std::vector<request> requests_for(const S&) {
  std::vector<request> requests;
  for (std::int32_t n = 0; n < 3; ++n) {
    request r{{}, ask(5 + n, n == 1 ? 0.0f : 0.8f)};
    for (std::int32_t t = 0; t <= 4 * n; ++t) { r.prompt.push_back((7 * n + 3 * t) % 5); }
    r.options.seed = static_cast<std::uint64_t>(500 + n);
    r.options.stop_tokens = {11};
    if constexpr (std::is_same_v<S, every_stage>) {
      r.options.top_k = n == 0 ? 10 : 0;
      r.options.top_p = 0.9f;
      r.options.repetition_penalty = 1.3f;
      r.options.bias = {{5, 1.5f}, {6, -2.0f}};
    }
    requests.push_back(r);
  }
  return requests;
}

/// A selector of any type, for every executor of these tests.
struct any_selector {
  template <class S>
  explicit any_selector(const S& of) : alone(of), together(of), hidden(of) {}

  selector::any<double> alone;
  selector::any<double, threads> together;
  selector::any<double, hidden_threads> hidden;
};

template <class Models, class E, class Make, class S, class V>
outcome driven(E executor, Models& models, const Make& make, selector::any<double, E> selector,
               S sampler, V verifier, bool* drafted = nullptr) {
  decoder d{models.target,
            make(models),
            std::move(selector),
            sampler,
            verifier,
            decoder_options{.max_batch = 2, .chunk = chunk, .token_text = {}},
            random_source<>{},
            executor};
  stepped_by by(d);
  outcome out = outcome_of(by, requests_for(sampler), 2);
  if (drafted != nullptr) { *drafted = d.stats().drafted > 0; }
  models.target.cache().check();
  return out;
}

template <class Make, class S, class V>
outcome repeated(hidden_threads executor, padded_grid_models& models, const Make& make,
                 selector::any<double, hidden_threads> selector, S sampler, V verifier) {
  resident_decoder d{models.target,
                     make(models),
                     std::move(selector),
                     sampler,
                     verifier,
                     resident_options{.max_batch = 2, .max_length = 64, .chunk = chunk},
                     random_source<>{},
                     executor};
  repeated_by by(d);
  return outcome_of(by, requests_for(sampler), 2, 1000);
}

/// \param make gives the drafter over `grid_and_eagle` or what has members as that has.
template <class Make, class S, class V>
void check(const Make& make, S sampler, V verifier, const std::vector<any_selector>& selectors) {
  constexpr std::int32_t nodes =
      std::remove_cvref_t<decltype(make(std::declval<grid_and_eagle&>()))>::max_nodes;
  const exact_case worlds{
      {vocab, 91, flavour::smooth}, {vocab, 91, flavour::smooth, 0, nullptr, 3}, {}};
  for (std::size_t n = 0; n < selectors.size(); ++n) {
    CAPTURE(n);
    const any_selector& selector = selectors[n];
    const vocab_layout& layout = selector.alone.layout();
    grid_and_eagle models(worlds, layout);
    bool drafted = false;
    const outcome expected =
        driven(executor::host{}, models, make, selector.alone, sampler, verifier, &drafted);
    CHECK(drafted);
    for (const threads& team : {block, cluster}) {
      CAPTURE(team.blocks);
      grid_and_eagle again(worlds, layout);
      CHECK(driven(team, again, make, selector.together, sampler, verifier) == expected);
      grid_and_eagle hidden(worlds, layout);
      padded_grid_models padded(hidden, 2, 2 * nodes + chunk);
      CHECK(repeated(hidden_threads{team}, padded, make, selector.hidden, sampler, verifier) ==
            expected);
      hidden.target.cache().check();
    }
  }
}

auto clusters(auto budget) {
  static const toy_router weights(toy_context_size, 5, 7);
  return selector::clustered{shuffled_layout(vocab, 37).clustered({2, 9, 16, 17, 30, 37}),
                             weights.view(), budget};
}

const std::vector<any_selector>& whole_head() {
  static const std::vector<any_selector> all{any_selector(selector::full{vocab})};
  return all;
}

TEST_CASE("a draft model over every selector") {
  const std::vector<any_selector> selectors{
      any_selector(selector::frequency{shuffled_layout(vocab, vocab), 30}),
      any_selector(selector::trimmed{shuffled_layout(vocab, 30)}),
      any_selector(clusters(budget::per_row{budget::rows{5, 20}})),
      any_selector(selector::united{clusters(budget::mass{4, 0.8f}), 4}),
      any_selector(selector::second_opinion{clusters(budget::fixed{2}), 0.7})};
  check(
      [](auto& m) {
        return drafter::autoregressive{m.draft, tree::sampled<2, 1>{}};
      },
      every_stage{}, verifier::rejection{}, selectors);
}

TEST_CASE("models that read the target's cache or its features, and policies of lengths") {
  check(
      [](auto& m) {
        return drafter::autoregressive{m.eagle, tree::dynamic<2, 3, 7>{}, length::ewma{2, 0.5}};
      },
      plain_sampler{}, verifier::point_mass{}, whole_head());
  check(
      [](auto& m) {
        return drafter::autoregressive{m.view, tree::chain<3>{}, length::entropy{0.4, 0.3}};
      },
      every_stage{}, verifier::block{}, whole_head());
  check(
      [](auto& m) {
        return drafter::autoregressive{
            m.draft, tree::chain<3>{},
            length::one_of<length::fixed, length::cost>{length::cost{.draft = 0.3, .trust = 1.0}}};
      },
      plain_sampler{}, verifier::coupled{}, whole_head());
}

TEST_CASE("heads, streams and pruned trees") {
  static constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};
  check(
      [](auto& m) {
        return drafter::heads{m.heads, tree::sampled<2, 1>{}};
      },
      plain_sampler{}, verifier::rejection{}, whole_head());
  check(
      [](auto& m) {
        return drafter::pruned{drafter::heads{m.heads, tree::fixed<some>{}}, m.view, 3};
      },
      plain_sampler{}, verifier::coupled{}, whole_head());
  check(
      [](auto& m) {
        return drafter::pruned{drafter::streaming{m.streams, tree::dynamic<2, 3, 7>{}}, m.view, 3};
      },
      plain_sampler{}, verifier::point_mass{}, whole_head());
}

TEST_CASE("texts that are looked up, alone, in one tree with what a model drafts, and before it") {
  check([](auto&) { return drafter::lookup<3>{1}; }, plain_sampler{}, verifier::point_mass{},
        whole_head());
  check(
      [](auto& m) {
        return drafter::ensemble{drafter::nodes<8>{}, drafter::lookup<3>{1},
                                 drafter::autoregressive{m.draft, tree::dynamic<2, 3, 7>{}}};
      },
      plain_sampler{}, verifier::point_mass{}, whole_head());
  check(
      [](auto& m) {
        return drafter::cascade{drafter::lookup<3>{2},
                                drafter::autoregressive{m.draft, tree::chain<3>{}}};
      },
      plain_sampler{}, verifier::rejection{}, whole_head());
}

/// A target in whose passes something happens besides.
struct interrupted_target : resident_target<double> {
  using base = resident_target<double>;
  using base::base;
  std::function<void()> meanwhile;

  evaluation evaluate(const rows& padded) {
    meanwhile();
    return base::evaluate(padded);
  }
};

/// The texts of requests that come while a loop runs, of which one is cancelled there.
template <class E>
std::vector<text> joined_by(E executor) {
  toy_target<> toy{{vocab, 91, flavour::smooth}};
  interrupted_target target{toy, 2 + chunk};
  resident_decoder d{target,
                     drafter::none{},
                     selector::full{vocab},
                     every_stage{},
                     verifier::rejection{},
                     resident_options{.max_batch = 2, .max_length = 64, .chunk = chunk},
                     random_source<>{},
                     executor};
  std::vector<request> requests = requests_for(every_stage{});
  for (const request& r : requests_for(every_stage{})) { requests.push_back(r); }
  std::vector<text> texts;
  std::vector<request_id> ids;
  const auto look = [&] {
    d.poll([&](const ring_entry& e) {
      const auto r = static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin());
      if (e.t != no_token) { texts[r].push_back(e.t); }
    });
    try {
      while (ids.size() < requests.size()) {
        const request& r = requests[ids.size()];
        ids.push_back(d.add(r.prompt, r.options));
        texts.emplace_back();
      }
    } catch (const std::length_error&) {}  // until one has ended
  };
  std::int32_t passes = 0;
  std::int32_t joined = 0;
  target.meanwhile = [&] {
    const std::size_t before = ids.size();
    look();
    joined += ids.size() > before && d.runs() ? 1 : 0;
    if (++passes == 9) { CHECK(d.cancel(ids.back())); }
  };
  look();
  while (d.running() > 0) {
    d.run();
    look();
  }
  CHECK(joined > 1);
  CHECK(ids.size() == requests.size());
  toy.cache().check();
  return texts;
}

TEST_CASE("requests join a loop on teams of threads while it runs") {
  const std::vector<text> expected = joined_by(hidden_host{});
  CHECK(joined_by(hidden_threads{block}) == expected);
  CHECK(joined_by(hidden_threads{cluster}) == expected);
}

/// Everything that a loop says of requests.
struct told {
  std::vector<token> tokens;
  std::vector<std::int32_t> drafted;
  std::vector<std::pair<token, std::uint32_t>> reports;  ///< with the bits of the number
  std::vector<finish_reason> ends;

  friend bool operator==(const told&, const told&) = default;
};

/// A loop in which requests ask for log-probabilities, for which a model has no room, whose drafts
/// are limited one by one, and of which one is cancelled.
template <class E>
told told_by(E executor, std::int32_t target_room, std::int32_t draft_room) {
  toy_target<float> target{{vocab, 91, flavour::smooth}, target_room};
  toy_draft<float> draft{{vocab, 91, flavour::tied}, draft_room};
  decoder d{
      target,
      drafter::autoregressive{draft, tree::chain<3>{}},
      selector::full{vocab},
      plain_sampler{},
      verifier::rejection{},
      decoder_options{.max_batch = 4, .chunk = chunk, .max_log_probabilities = 2, .token_text = {}},
      random_source<>{},
      executor};
  std::vector<request_id> ids;
  std::vector<request> requests = requests_for(plain_sampler{});
  requests.push_back({{1, 2}, ask(1)});  // is cancelled
  for (request& r : requests) {
    r.options.max_new_tokens = 14;
    r.options.stop_tokens = {};
    r.options.log_probabilities = 2;
    ids.push_back(d.add(r.prompt, r.options));
  }
  // One drafts nothing for so long that its model has more than a chunk to catch up with.
  CHECK(d.draft_length(ids[0], 0));
  told out;
  std::int32_t steps = 0;
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      out.tokens.insert(out.tokens.end(), e.tokens.begin(), e.tokens.end());
      out.drafted.push_back(e.drafted);
      for (const token_log_probability& r : e.log_probabilities) {
        out.reports.push_back({r.t, std::bit_cast<std::uint32_t>(r.log_probability)});
      }
      if (e.finish != finish_reason::none) { out.ends.push_back(e.finish); }
    }
    if (++steps == 2) { CHECK(d.cancel(ids.back())); }
    if (steps == 2 * chunk) { CHECK(d.draft_length(ids[0], 3)); }
  }
  target.cache().check();
  draft.cache().check();
  return out;
}

TEST_CASE("reports, limits of drafts, and models without room") {
  constexpr std::int32_t target_room = 18;
  constexpr std::int32_t draft_room = 14;
  const told expected = told_by(executor::host{}, target_room, draft_room);
  CHECK(std::ranges::count(expected.ends, finish_reason::cache_full) > 0);
  CHECK(std::ranges::count(expected.ends, finish_reason::length) > 0);
  CHECK(expected.reports.size() == 3 * expected.tokens.size());
  const told roomy = told_by(executor::host{}, no_limit, no_limit);
  CHECK(std::ranges::count(roomy.ends, finish_reason::length) == 3);
  for (const threads& team : {block, cluster}) {
    CAPTURE(team.blocks);
    CHECK(told_by(team, target_room, draft_room) == expected);
    CHECK(told_by(team, no_limit, no_limit) == roomy);
  }
}

}  // namespace
}  // namespace hunch::test::loops_of_threads_test

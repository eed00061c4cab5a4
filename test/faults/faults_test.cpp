// SPDX-License-Identifier: Apache-2.0

// Exceptions at every place where one can come from: the state is that before the step, and a
// repetition gives the same text.

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/stages.hpp"
#include "../support/tree_drafter.hpp"
#include "allocations.hpp"

namespace hunch::test::faults_test {
namespace {

constexpr std::int32_t vocab = 5;
constexpr toy_world target_world{vocab, 81, flavour::smooth};
constexpr toy_world draft_world{vocab, 82, flavour::smooth};

/// Models whose allocations do not count.
struct quiet_target : toy_target<> {
  using toy_target<>::toy_target;
  evaluation evaluate(const rows& r) {
    const allocations::pause here;
    return toy_target<>::evaluate(r);
  }
  void commit(const kept_rows& kept) noexcept {
    const allocations::pause here;
    toy_target<>::commit(kept);
  }
};
struct quiet_draft : toy_draft<> {
  using toy_draft<>::toy_draft;
  hidden_states forward(const rows& r) {
    const allocations::pause here;
    return toy_draft<>::forward(r);
  }
  void head(const hidden_states& h, const head_rows<double>& rows) {
    const allocations::pause here;
    toy_draft<>::head(h, rows);
  }
  void commit(const kept_rows& kept) noexcept {
    const allocations::pause here;
    toy_draft<>::commit(kept);
  }
};

/// A tree drafter whose drafting does not count; what the decoder does with the tree does.
template <child_law Children>
struct quiet_tree : tree_drafter<Children> {
  template <class... Rest>
  void propose(Rest&&... rest) {
    const allocations::pause here;
    tree_drafter<Children>::propose(rest...);
  }
};

std::vector<request> some_requests() {
  std::vector<request> requests{{{1, 2, 3, 0, 4, 1, 1, 2}, ask(14)}, {{2}, ask(9, 0.8f), 1}};
  requests[0].options.seed = 5;
  requests[1].options.seed = 6;
  requests[1].options.stop_tokens = {4};
  return requests;
}

/// The same with every stage, and with log-probabilities.
std::vector<request> staged_requests() {
  std::vector<request> requests = some_requests();
  for (request& r : requests) {
    const generation_options plain = r.options;
    r.options = with_every_stage(plain, vocab);
    r.options.log_probabilities = 2;
  }
  return requests;
}

const decoder_options small_batch{
    .max_batch = 2, .chunk = 3, .draft_length = 99, .max_log_probabilities = 2, .token_text = {}};

/// The texts of the requests; every step that throws is repeated.
template <class Decoder>
std::vector<text> run_with_retries(Decoder& d, toy_target<>& target, toy_draft<>& draft,
                                   const std::vector<request>& requests, std::int64_t& thrown) {
  std::vector<text> texts(requests.size());
  std::vector<request_id> ids(requests.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    ids[r] = d.add(requests[r].prompt, requests[r].options);
  }
  const auto caches = [&] {
    std::vector<text> all;
    for (std::int32_t slot = 0; slot < 2; ++slot) {
      all.push_back(target.cache().tokens(slot));
      all.push_back(draft.cache().tokens(slot));
    }
    return all;
  };
  while (d.running() > 0) {
    const auto before = caches();
    const auto stats = d.stats();
    try {
      for (const emission& e : d.step()) {
        text& t = texts[static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin())];
        t.insert(t.end(), e.tokens.begin(), e.tokens.end());
      }
    } catch (const planned_failure&) {
      ++thrown;
      CHECK(caches() == before);
      CHECK(d.stats().steps == stats.steps);
      CHECK(d.stats().emitted == stats.emitted);
      CHECK(d.stats().target_passes == stats.target_passes);
    }
  }
  target.cache().check();
  draft.cache().check();
  return texts;
}

/// \param make the drafter, given a draft model.
template <class Make, class Selector, class S, class V>
void throw_everywhere(Make&& make, const Selector& selector, S, V,
                      const std::vector<request>& requests) {
  std::vector<text> expected;
  std::int64_t calls = 1;
  for (std::int64_t at = -1; at < calls; ++at) {
    CAPTURE(at);
    toy_target<> target{target_world};
    toy_draft<> draft{draft_world, selector.layout()};
    failure_plan plan{0, at};
    target.failures = draft.failures = &plan;
    Selector own = selector;
    decoder d{target, make(draft), std::move(own), S{}, V{}, small_batch};
    std::int64_t thrown = 0;
    const auto texts = run_with_retries(d, target, draft, requests, thrown);
    if (at < 0) {
      expected = texts;
      calls = plan.calls;
      CHECK(thrown == 0);
      CHECK(calls > 6);
    } else {
      CHECK(thrown == 1);
      CHECK(texts == expected);
    }
  }
}

const auto chain_of = [](toy_draft<>& draft) {
  return drafter::autoregressive{draft, tree::chain<3>{}};
};
template <child_law Children>
const auto tree_of = [](toy_draft<>&) {
  return tree_drafter<Children>{draft_world, {-1, 0, 0, 1, 1}};
};

std::vector<request> at_temperature(float temperature) {
  std::vector<request> requests = some_requests();
  for (request& r : requests) { r.options.temperature = temperature; }
  return requests;
}

TEST_CASE("a model that throws at any call") {
  const auto sampled = at_temperature(1.0f);
  throw_everywhere(chain_of, selector::full{vocab}, plain_sampler{}, verifier::rejection{},
                   sampled);
  throw_everywhere(chain_of, selector::frequency{shuffled_layout(vocab, vocab), 2}, plain_sampler{},
                   verifier::rejection{}, sampled);
  throw_everywhere(chain_of, toy_selector{shuffled_layout(vocab, 4)}, plain_sampler{},
                   verifier::rejection{}, at_temperature(0.7f));
  throw_everywhere(chain_of, selector::full{vocab}, sampler::greedy{}, verifier::greedy{},
                   at_temperature(0.0f));
}

TEST_CASE("a model that throws at any call, with stages, other rules and trees") {
  const selector::full all{vocab};
  const auto staged = staged_requests();
  using enum child_law;
  throw_everywhere(chain_of, all, every_stage{}, verifier::rejection{}, staged);
  throw_everywhere(chain_of, all, every_stage{}, verifier::block{}, staged);
  throw_everywhere(chain_of, all, every_stage{}, verifier::coupled{}, staged);
  throw_everywhere(tree_of<without_replacement>, all, every_stage{}, verifier::rejection{}, staged);
  throw_everywhere(tree_of<ranked>, all, every_stage{}, verifier::point_mass{}, staged);
}

TEST_CASE("a cancel after a failed step, and before its repetition") {
  toy_target<> target{target_world};
  toy_draft<> draft{draft_world};
  failure_plan plan;
  target.failures = &plan;
  auto d = chain_decoder<3>(target, draft, {}, {}, small_batch);
  const auto requests = some_requests();
  const request_id first = d.add(requests[0].prompt, requests[0].options);
  const request_id second = d.add(requests[1].prompt, requests[1].options);
  d.step();
  plan = {0, 0};
  CHECK_THROWS_AS(d.step(), planned_failure);
  CHECK(d.cancel(first));
  CHECK(target.cache().tokens(0).empty());
  CHECK(draft.cache().tokens(0).empty());
  const request_id third = d.add(requests[0].prompt, requests[0].options);
  text again;
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      CHECK((e.id == second || e.id == third));
      if (e.id == third) { again.insert(again.end(), e.tokens.begin(), e.tokens.end()); }
    }
  }
  auto fresh = chain_decoder<3>(target, draft, {}, {}, small_batch);
  text expected;
  for (const token t : fresh.generate(requests[0].prompt, requests[0].options)) {
    expected.push_back(t);
  }
  CHECK(again == expected);
}

TEST_CASE("the text of a token that throws") {
  toy_target<> target{target_world};
  toy_draft<> draft{target_world};
  std::int64_t left = -1;
  const auto text_of = [&left](token t) -> std::string_view {
    if (left-- == 0) { throw planned_failure(); }
    return std::string_view("abcde").substr(static_cast<std::size_t>(t), 1);
  };
  auto d = chain_decoder<3>(
      target, draft, {}, {},
      decoder_options{.max_batch = 2, .chunk = 3, .draft_length = 99, .token_text = text_of});
  std::vector<request> requests = some_requests();
  requests[0].options.stop_strings = {"eeee"};
  requests[1].options.stop_strings = {"dd", "cba"};
  std::int64_t thrown = 0;
  left = -1;
  const auto expected = run_with_retries(d, target, draft, requests, thrown);
  CHECK(thrown == 0);
  std::int64_t runs = 0;
  for (bool threw = true; threw; ++runs) {
    left = runs;
    const std::int64_t before = thrown;
    CHECK(run_with_retries(d, target, draft, requests, thrown) == expected);
    threw = thrown > before;
  }
  CHECK(runs > 12);
}

template <class Drafter, class Selector, class S, class V>
void allocates_nothing(Drafter drafter, Selector selector, S, V,
                       const std::vector<request>& requests) {
  quiet_target target{target_world};
  // Tokens of one byte, and of more than any buffer has for a stop string.
  std::vector<std::string> words;
  for (token t = 0; t < vocab; ++t) {
    words.push_back(std::string(t == 0 ? 1 : 1000, static_cast<char>('a' + t)));
  }
  const auto text_of = [&words](token t) -> std::string_view {
    return words[static_cast<std::size_t>(t)];
  };
  decoder_options options = small_batch;
  options.token_text = text_of;
  decoder d{target, std::move(drafter), std::move(selector), S{}, V{}, options};
  for (const request& r : requests) { d.add(r.prompt, r.options); }
  std::int64_t steps = 0;
  for (; d.running() > 0; ++steps) {
    CHECK(allocations::during([&] { d.step(); }) == 0);
  }
  CHECK(steps > 4);
  const request_id id = d.add(requests[0].prompt, requests[0].options);
  CHECK(allocations::during([&] { d.cancel(id); }) == 0);
  // The counter counts.
  CHECK(allocations::during([&] { d.add(requests[0].prompt, requests[0].options); }) > 0);
}

TEST_CASE("a step allocates nothing") {
  const auto order = shuffled_layout(vocab, vocab);
  quiet_draft draft{draft_world, order};
  const toy_selector some{order};
  using chain = drafter::autoregressive<quiet_draft&, tree::chain<3>>;
  std::vector<request> requests = some_requests();
  requests[0].options.top_p = 0.9f;
  requests[0].options.stop_strings = {"aaaaaaaa"};
  allocates_nothing(chain{draft}, some, full_sampler{}, verifier::rejection{}, requests);
  const auto staged = staged_requests();
  allocates_nothing(chain{draft}, some, every_stage{}, verifier::rejection{}, staged);
  allocates_nothing(chain{draft}, some, every_stage{}, verifier::block{}, staged);
  allocates_nothing(chain{draft}, some, every_stage{}, verifier::coupled{}, staged);
  const auto drafts = [](auto tree) {
    tree.world = draft_world;
    tree.shape = {-1, 0, 0, 1, 1};
    return tree;
  };
  using enum child_law;
  allocates_nothing(drafts(quiet_tree<without_replacement>{}), some, every_stage{},
                    verifier::rejection{}, staged);
  allocates_nothing(drafts(quiet_tree<ranked>{}), some, every_stage{}, verifier::point_mass{},
                    staged);
}

TEST_CASE("an increment that throws leaves the iterator at its token, and can be repeated") {
  toy_target<> target{target_world};
  toy_draft<> draft{draft_world};
  failure_plan plan;
  target.failures = draft.failures = &plan;
  auto d = chain_decoder<3>(target, draft, {}, {}, small_batch);
  const request r = some_requests()[0];
  std::int64_t thrown = 0;
  const auto read = [&](std::int64_t fail_at) {
    text emitted;
    plan = {0, -1};
    auto range = d.generate(r.prompt, r.options);
    plan.fail_at = fail_at;
    const auto repeated = [&](auto&& what) {
      for (;;) {
        try {
          return what();
        } catch (const planned_failure&) { ++thrown; }
        // What was read stays readable.
        if (!emitted.empty()) { CHECK_FALSE(range.done()); }
      }
    };
    auto it = repeated([&] { return range.begin(); });
    while (it != range.end()) {
      emitted.push_back(*it);
      repeated([&] {
        ++it;
        return true;
      });
    }
    CHECK(range.finish() == finish_reason::length);
    CHECK(d.running() == 0);
    return emitted;
  };
  const text expected = read(-1);
  CHECK(expected.size() == 14);
  std::int64_t runs = 0;
  for (bool threw = true; threw; ++runs) {
    const std::int64_t before = thrown;
    CHECK(read(runs) == expected);
    threw = thrown > before;
  }
  CHECK(runs > 12);
}

TEST_CASE("a range that is read allocates nothing after it was made") {
  quiet_target target{target_world};
  quiet_draft draft{draft_world};
  auto d = chain_decoder<3>(target, draft, {}, {}, small_batch);
  auto range = d.generate(text{1, 2}, ask(40));
  std::int64_t tokens = 0;
  CHECK(allocations::during([&] {
          for (const token t : range) { tokens += t >= 0 ? 1 : 0; }
        }) == 0);
  CHECK(tokens == 40);
}

TEST_CASE("an add that runs out of memory leaves no trace") {
  quiet_target target{target_world};
  quiet_draft draft{draft_world};
  const auto check = [&](request r, std::int64_t least) {
    auto d = chain_decoder<3>(target, draft, every_stage{}, {}, small_batch);
    r.options.stop_tokens = {1, 2};
    std::int64_t failures = 0;
    for (std::int64_t at = 0;; ++at) {
      try {
        allocations::during([&] { d.add(r.prompt, r.options); }, at);
        break;
      } catch (const std::bad_alloc&) {
        ++failures;
        CHECK(d.running() == 0);
        CHECK(d.step().empty());
      }
    }
    CHECK(failures >= least);
    CHECK(d.running() == 1);
  };
  check(some_requests()[1], 2);
  check(staged_requests()[1], 6);  // biases, counts, a walk through the grammar
}

TEST_CASE("a construction that runs out of memory leaves models that can be used") {
  quiet_target target{target_world};
  quiet_draft draft{draft_world};
  const request r = some_requests()[0];
  std::int64_t failures = 0;
  for (std::int64_t at = 0;; ++at) {
    text emitted;
    try {
      allocations::during(
          [&] {
            auto d = chain_decoder<3>(target, draft, {}, {}, small_batch);
            const allocations::pause built;
            for (const token t : d.generate(r.prompt, r.options)) { emitted.push_back(t); }
          },
          at);
      CHECK(emitted.size() == 14);
      break;
    } catch (const std::bad_alloc&) { ++failures; }
  }
  CHECK(failures > 10);
}

TEST_CASE("a decoder that goes away gives its models back") {
  toy_target<> target{target_world};
  toy_draft<> draft{draft_world};
  const request r = some_requests()[0];
  const auto run = [&](bool finish) {
    auto d = chain_decoder<3>(target, draft, {}, {}, small_batch);
    text emitted;
    d.add(r.prompt, r.options);
    do {
      for (const emission& e : d.step()) {
        emitted.insert(emitted.end(), e.tokens.begin(), e.tokens.end());
      }
    } while (finish ? d.running() > 0 : emitted.empty());
    return emitted;
  };
  const text expected = run(true);
  run(false);
  CHECK(target.cache().tokens(0).empty());
  CHECK(draft.cache().tokens(0).empty());
  CHECK(run(true) == expected);
}

}  // namespace
}  // namespace hunch::test::faults_test

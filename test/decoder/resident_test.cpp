// SPDX-License-Identifier: Apache-2.0

// The loop that does not wait for the host writes the same texts as the one that does, bit for bit,
// and has the same law.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/resident_decoder.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/erased_decoders.hpp"
#include "../support/hidden_host.hpp"
#include "../support/rereading_draft.hpp"
#include "../support/resident_models.hpp"
#include "../support/resident_runs.hpp"
#include "../support/stages.hpp"
#include "../support/stepping.hpp"
#include "../support/team_executors.hpp"
#include "../support/threaded_host.hpp"
#include "../support/varied_requests.hpp"

namespace hunch::test::resident_test {
namespace {

constexpr std::int32_t vocab = 40;
constexpr toy_world target_world{vocab, 91, flavour::smooth};
constexpr toy_world draft_world{vocab, 92, flavour::smooth};
constexpr std::int32_t length = 4;  // of drafts

#if defined(__SANITIZE_THREAD__)
constexpr std::int32_t request_count = 3;
constexpr std::int32_t block_count = 4;
constexpr std::int32_t rank_count = 8;
#else
constexpr std::int32_t request_count = 12;
constexpr std::int32_t block_count = 1;
constexpr std::int32_t rank_count = 5;
#endif

hidden_threads many_threads() { return {{{}, block_count, rank_count}}; }

/// A host that notes which loops it has recorded, as a device keeps them.
struct recording_host : executor::host {
  std::shared_ptr<std::set<const std::int32_t*>> recorded =
      std::make_shared<std::set<const std::int32_t*>>();

  template <class Step>
  void repeat(std::uint64_t shape, Step&& step, std::int32_t* again) {
    recorded->insert(again);
    executor::host::repeat(shape, step, again);
  }
  void forget(const std::int32_t* again) { recorded->erase(again); }
};
static_assert(ResidentExecutor<recording_host>);

enum class kind { sampled, greedy, staged };

std::vector<request> requests_of(kind what) {
  std::vector<request> requests;
  for (std::int32_t n = 0; n < request_count; ++n) {
    request r = varied_request(n, {.tokens = vocab});
    if (what == kind::greedy) { r.options.temperature = 0.0f; }
    if (what == kind::staged) {
      r.options.top_k = n % 2 == 0 ? 10 : 0;
      r.options.top_p = 0.9f;
      r.options.min_p = n % 2 == 0 ? 0.0f : 0.01f;
      r.options.repetition_penalty = 1.3f;
      r.options.frequency_penalty = n % 2 == 0 ? 0.4f : 0.0f;
      r.options.presence_penalty = 0.2f;
      if (n % 2 == 1) { r.options.bias = {{5, 1.5f}, {6, -2.0f}}; }
    }
    requests.push_back(r);
  }
  return requests;
}

/// What requests write in a decoder that is stepped.
template <class Drafter, class Selector, class S, class V>
outcome stepped(Drafter drafter, Selector selector, S sampler, V verifier,
                const std::vector<request>& requests) {
  toy_target<float> target{target_world};
  const auto batch = static_cast<std::int32_t>(requests.size());
  decoder d{target,
            std::move(drafter),
            std::move(selector),
            std::move(sampler),
            std::move(verifier),
            decoder_options{.max_batch = batch, .token_text = {}}};
  stepped_by by(d);
  return outcome_of(by, requests, batch);
}

/// The same in a resident loop, `batch` requests at a time, in runs of up to `steps` steps.
template <class E, class Drafter, class Selector, class S, class V>
outcome resident(E executor, Drafter drafter, Selector selector, S sampler, V verifier,
                 const std::vector<request>& requests, std::int32_t batch, std::int64_t steps,
                 std::int32_t eager_rows, statistics<length + 1>* counters = nullptr) {
  toy_target<float> toy{target_world};
  constexpr std::int32_t chunk = 3;
  resident_target<float> target{toy, batch * (length + 1) + chunk};
  resident_decoder d{target,
                     std::move(drafter),
                     std::move(selector),
                     std::move(sampler),
                     std::move(verifier),
                     resident_options{.max_batch = batch,
                                      .max_length = 64,
                                      .chunk = chunk,
                                      .ring = 2 * length,
                                      .eager_rows = eager_rows},
                     random_source<>{},
                     executor};
  repeated_by by(d);
  outcome out = outcome_of(by, requests, batch, steps);
  if constexpr (Drafter::max_nodes == length + 1) {
    if (counters != nullptr) { *counters = d.stats(); }
  }
  toy.cache().check();
  return out;
}

using chain = tree::chain<length>;

/// Five clusters after a core, and a random router.
template <class B>
auto routed(B budget) {
  static const toy_router weights(toy_context_size, 5, 7);
  return selector::clustered{shuffled_layout(vocab, 37).clustered({2, 9, 16, 17, 30, 37}),
                             weights.view(), budget};
}

/// The same router, as one whose layers a resident loop does not know.
struct plain_router {
  router::mlp<float> known;
  std::int32_t clusters = known.clusters;
  std::int32_t inputs = known.inputs;
  std::int32_t scratch = known.scratch;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, const float* context, float* workspace,
                                    float* scores) const {
    known(team, context, workspace, scores);
  }
};
static_assert(Router<plain_router>);

/// run(batch, steps, eager_rows) for all of these.
void check_runs(const outcome& expected, const std::vector<std::int32_t>& batches,
                const std::function<outcome(std::int32_t, std::int64_t, std::int32_t)>& run) {
  for (const std::int32_t batch : batches) {
    for (const std::int32_t eager_rows : {0, 1000}) {
      CAPTURE(batch);
      CAPTURE(eager_rows);
      CHECK(run(batch, batch == 3 ? 2 : 1000, eager_rows) == expected);
    }
  }
}

/// \tparam Threads whether bodies are run by threads, which take their time: over fewer selectors.
template <bool Threads = false, class E, class S, class V>
void same_texts(E executor, S sampler, V verifier, kind what,
                const std::vector<std::int32_t>& batches = {1, 3, request_count}) {
  const std::vector<request> requests = requests_of(what);
  const auto check = [&]<bool Early>(const auto& selector, std::bool_constant<Early>) {
    toy_draft<float> draft{draft_world, selector.layout()};
    const outcome expected =
        stepped(drafter::autoregressive{draft, chain{}}, selector, sampler, verifier, requests);
    check_runs(
        expected, batches, [&](std::int32_t batch, std::int64_t steps, std::int32_t eager_rows) {
          toy_draft<float> toy{draft_world, selector.layout()};
          resident_draft<float, toy_draft<float>, Early> model{toy};
          outcome found = resident(executor, drafter::autoregressive{model, chain{}}, selector,
                                   sampler, verifier, requests, batch, steps, eager_rows);
          toy.cache().check();
          return found;
        });
  };
  check(selector::full{vocab}, std::true_type{});
  check(selector::frequency{shuffled_layout(vocab, 30), 20}, std::true_type{});
  check(routed(budget::position_aware{3}), std::true_type{});
  if constexpr (!Threads) {
    check(routed(budget::per_row{budget::rows{5, 20}}), std::false_type{});
    const auto clusters = routed(budget::fixed{2});
    check(selector::clustered{clusters.layout(), plain_router{clusters.router()},
                              budget::mass{4, 0.8f}},
          std::true_type{});
  }
}

TEST_CASE("the texts of a loop that waits, by every rule") {
  const hidden_host host;
  same_texts(executor::host{}, plain_sampler{}, verifier::rejection{}, kind::sampled);
  same_texts(host, plain_sampler{}, verifier::rejection{}, kind::sampled);
#if !defined(__SANITIZE_THREAD__)
  same_texts(host, plain_sampler{}, verifier::block{}, kind::sampled);
  same_texts(host, plain_sampler{}, verifier::point_mass{}, kind::sampled);
  same_texts(host, plain_sampler{}, verifier::coupled{}, kind::sampled);
  same_texts(host, sampler::greedy{}, verifier::greedy{}, kind::greedy);
  same_texts(host, every_stage{}, verifier::rejection{}, kind::staged);
#endif
}

TEST_CASE("the same bodies on teams of threads") {
  same_texts<true>(many_threads(), every_stage{}, verifier::rejection{}, kind::staged, {3});
#if !defined(__SANITIZE_THREAD__)
  same_texts(hidden_threads{{{}, 3, 2}}, plain_sampler{}, verifier::coupled{}, kind::sampled, {3});
#endif
}

TEST_CASE("texts over drafts that are looked up") {
  const auto check = [](auto executor, auto drafter, auto sampler, auto verifier, kind what) {
    // Of few tokens, so that texts repeat themselves.
    std::vector<request> requests = requests_of(what);
    for (request& r : requests) {
      for (token& t : r.prompt) { t %= 4; }
      r.options.bias = {};
    }
    const outcome expected = stepped(drafter, selector::full{vocab}, sampler, verifier, requests);
    for (const std::int32_t batch : {1, 3}) {
      statistics<length + 1> counters;
      CHECK(resident(executor, drafter, selector::full{vocab}, sampler, verifier, requests, batch,
                     batch == 3 ? 2 : 1000, 0, &counters) == expected);
      CHECK(counters.drafted > 0);
    }
  };
  const drafter::lookup<length> any{1};
  const drafter::lookup<length, 2> pairs{2, {3}};
  check(executor::host{}, any, plain_sampler{}, verifier::point_mass{}, kind::sampled);
  check(hidden_host{}, any, plain_sampler{}, verifier::point_mass{}, kind::sampled);
  check(executor::host{}, pairs, sampler::greedy{}, verifier::greedy{}, kind::greedy);
  check(many_threads(), any, plain_sampler{}, verifier::point_mass{}, kind::sampled);
}

/// A host that can do two things at a time, and a draft model for it: they note in which order they
/// are asked.
struct forking_host : executor::host {
  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(forking_host& h, std::size_t n) : executor::host::buffer<T>(h, n) {}
  };
  std::string* asked = nullptr;

  forking_host& fork() {
    *asked += "fork ";
    return *this;
  }
  void join() { *asked += "join "; }
};
static_assert(ResidentExecutor<forking_host>);

struct noting_draft : resident_draft<float> {
  std::string* asked;

  noting_draft(toy_draft<float>& toy, std::string& to) : resident_draft<float>(toy), asked(&to) {}
  context_rows contexts(const rows& r) {
    *asked += "contexts ";
    return resident_draft<float>::contexts(r);
  }
  hidden_states forward(const rows& r) {
    *asked += "pass ";
    return resident_draft<float>::forward(r);
  }
  void head(const hidden_states& h, const head_rows<float>& r) {
    *asked += "head ";
    resident_draft<float>::head(h, r);
  }
};

TEST_CASE("a router comes after its contexts and in front of the head") {
  const auto selector = routed(budget::fixed{2});
  toy_draft<float> toy{draft_world, selector.layout()};
  std::string asked;
  noting_draft model{toy, asked};
  const std::vector<request> one{request{{1}, ask(8, 0.8f)}};
  resident(forking_host{{}, &asked}, drafter::autoregressive{model, chain{}}, selector,
           plain_sampler{}, verifier::rejection{}, one, 1, 1000, 0);
  const std::string level = "contexts fork pass join head ";
  REQUIRE(asked.size() >= level.size());
  REQUIRE(asked.size() % level.size() == 0);
  for (std::size_t at = 0; at < asked.size(); at += level.size()) {
    CHECK(asked.substr(at, level.size()) == level);
  }
}

TEST_CASE("a draft model that reads accepted tokens again") {
  const std::vector<request> requests = requests_of(kind::sampled);
  const auto selector = routed(budget::fixed{2});
  rereading_draft<float> waits{draft_world, selector.layout()};
  const outcome expected = stepped(drafter::autoregressive{waits, chain{}}, selector,
                                   plain_sampler{}, verifier::rejection{}, requests);
  rereading_draft<float> again{draft_world, selector.layout()};
  resident_draft<float, rereading_draft<float>> model{again};
  CHECK(resident(hidden_host{}, drafter::autoregressive{model, chain{}}, selector, plain_sampler{},
                 verifier::rejection{}, requests, 3, 1000, 0) == expected);
  again.cache().check();
  CHECK(again.most_rows > 2);  // more than one that only catches up
}

TEST_CASE("models that live on the executor") {
  // What device tests compare with; here with the loop that waits.
  const auto check = []<class By, class S, class V>(By, S sampler, V verifier, run_kind what) {
    const std::vector<run_request> requests = run_requests_of(what, 6);
    executor::host host;
    hash_model<executor::host> target(host, run_vocab, 1, 6, 300);
    hash_model<executor::host> draft(host, run_vocab, 2, 6, 300);
    auto selector = By::of();
    draft.head_layout(selector.layout());
    // What is held by value, as in a `run_loop`, makes it the same step.
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<run_length>{}},
              std::move(selector),
              S(sampler),
              V(verifier),
              decoder_options{.token_text = {}}};
    std::vector<std::vector<token>> expected;
    for (const run_request& r : requests) {
      expected.emplace_back();
      for (const token t : d.generate(r.prompt, r.options)) { expected.back().push_back(t); }
    }
    CHECK(d.stats().draft_acceptance_rate() > 0.1);
    CHECK(d.stats().draft_acceptance_rate() < 0.9);
    CHECK(resident_texts<By>(host, sampler, verifier, requests, 4, 1000, 0) == expected);
    CHECK(resident_texts<By>(host, sampler, verifier, requests, 1, 2, 1000) == expected);
  };
  check(by_frequency{}, plain_sampler{}, verifier::rejection{}, run_kind::sampled);
  check(by_frequency{}, sampler::greedy{}, verifier::greedy{}, run_kind::greedy);
  check(by_router{}, plain_sampler{}, verifier::rejection{}, run_kind::sampled);
}

/// A target whose rows of logits are not those of an array: bodies find each in a table.
class scattered_target : public resident_target<float> {
 public:
  scattered_target(toy_target<float>& toy, std::int32_t max_rows)
      : resident_target<float>(toy, max_rows), rows_(index(2 * max_rows)) {}

  struct evaluation {
    const scattered_target* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const { return of->row(i); }
  };
  evaluation evaluate(const rows& padded) {
    const auto made = resident_target<float>::evaluate(padded);
    for (std::int32_t i = 0; i < padded.size; ++i) {
      const row_view<float> from = made.logits(i);
      std::copy_n(from.data, from.size, row(i).data);
    }
    return {this};
  }

 private:
  row_view<float> row(std::int32_t i) const {
    // Of four rows the first three change places, and there is a gap.
    const std::int32_t at = i / 4 * 8 + (i % 4 == 3 ? 5 : 2 - i % 4);
    return {const_cast<float*>(rows_.data()) + std::ptrdiff_t{at} * vocab, vocab};
  }
  static std::size_t index(std::int32_t rows) {
    return static_cast<std::size_t>(rows + 8) * static_cast<std::size_t>(vocab);
  }

  std::vector<float> rows_;
};

TEST_CASE("logits that lie anywhere") {
  const auto requests = requests_of(kind::sampled);
  const selector::frequency frequent{shuffled_layout(vocab, 30), 20};
  const auto write = [&](auto target_of, auto executor) {
    toy_target<float> toy{target_world};
    toy_draft<float> draft{draft_world, frequent.layout()};
    auto target = target_of(toy);
    resident_draft<float> drafts{draft};
    resident_decoder d{
        target,
        drafter::autoregressive{drafts, chain{}},
        frequent,
        plain_sampler{},
        verifier::rejection{},
        resident_options{.max_batch = 4, .max_length = 64, .chunk = 3, .ring = 2 * length},
        random_source<>{},
        executor};
    repeated_by by(d);
    return outcome_of(by, requests, 4, 1000);
  };
  constexpr std::int32_t rows = 4 * (length + 1) + 3;
  const auto in_an_array = [](toy_target<float>& t) { return resident_target<float>{t, rows}; };
  const auto anywhere = [](toy_target<float>& t) { return scattered_target{t, rows}; };
  const outcome expected = write(in_an_array, hidden_host{});
  CHECK(write(anywhere, hidden_host{}) == expected);
  CHECK(write(anywhere, executor::host{}) == expected);
  CHECK(write(anywhere, many_threads()) == expected);
}

TEST_CASE("a loop that is used again while its batch shrinks, beside another one") {
  const std::vector<run_request> requests = run_requests_of(run_kind::staged, 12);
  executor::host host;
  const auto whole = resident_texts(host, every_stage{}, verifier::rejection{}, requests, 1, 50, 0);
  const auto texts = shrinking_texts(host, every_stage{}, verifier::rejection{}, requests);
  REQUIRE(texts.size() == 2 * whole.size());
  for (std::size_t r = 0; r < whole.size(); ++r) {
    CAPTURE(r);
    CHECK(texts[texts.size() - 1 - r] == whole[r]);
    if (std::ranges::find(shrinking_cancels, r) == std::end(shrinking_cancels)) {
      CHECK(texts[r] == whole[r]);
    } else {
      CHECK(texts[r].size() < whole[r].size());
      CHECK(std::equal(texts[r].begin(), texts[r].end(), whole[r].begin()));
    }
  }
}

TEST_CASE("plain decoding") {
  const std::vector<request> requests = requests_of(kind::staged);
  const selector::full all{vocab};
  const outcome expected =
      stepped(drafter::none{}, all, every_stage{}, verifier::rejection{}, requests);
  CHECK(resident(executor::host{}, drafter::none{}, all, every_stage{}, verifier::rejection{},
                 requests, 2, 5, 0) == expected);
  // The comparison can fail: another seed is another text.
  std::vector<request> others = requests;
  for (request& r : others) { r.options.seed += 1; }
  CHECK(resident(executor::host{}, drafter::none{}, all, every_stage{}, verifier::rejection{},
                 others, 2, 5, 0) != expected);
}

TEST_CASE("drafts are used, and counted as the other loop counts them") {
  const std::vector<request> requests = requests_of(kind::sampled);
  toy_draft<float> same{target_world};
  resident_draft<float> model{same};
  statistics<length + 1> counters;
  resident(executor::host{}, drafter::autoregressive{model, chain{}}, selector::full{vocab},
           plain_sampler{}, verifier::rejection{}, requests, 4, 1000, 0, &counters);
  toy_draft<float> again{target_world};
  toy_target<float> target{target_world};
  decoder d{target,
            drafter::autoregressive{again, chain{}},
            selector::full{vocab},
            plain_sampler{},
            verifier::rejection{},
            decoder_options{}};
  for (const request& r : requests) {
    for (const token t : d.generate(r.prompt, r.options)) { CHECK(t >= 0); }
  }
  CHECK(counters.accepted == counters.drafted);
  CHECK(counters.steps == d.stats().steps);
  CHECK(counters.drafted == d.stats().drafted);
  CHECK(counters.emitted == d.stats().emitted);
  CHECK(counters.shortlist_rows == d.stats().shortlist_rows);
  CHECK(std::ranges::equal(counters.histogram, d.stats().histogram));
  CHECK(counters.target_passes > 0);
}

TEST_CASE("the exact law") {
  const auto gap_of = [](auto verifier, const toy_world& p, const toy_world& q) {
    forking_source source;
    toy_target<> toy{p};
    toy_draft<> small{q};
    resident_target<double> target{toy, 2 * 4 + 4};
    resident_draft<double> draft{small};
    resident_decoder d{target,
                       drafter::autoregressive{draft, tree::chain<3>{}},
                       selector::full{3},
                       plain_sampler{},
                       verifier,
                       resident_options{.max_batch = 2, .max_length = 16, .chunk = 4},
                       source,
                       hidden_host{}};
    stepping<decltype(d)> steps{&d, {}, {}, {}};
    std::vector<request> requests{{{2, 1}, ask(4)}};
    requests[0].options.stop_tokens = {1};
    double largest = 0.0;
    for (const bool two : {false, true}) {
      if (two) { requests = {{{1}, ask(2)}, {{0, 2}, ask(2, 0.7f), 1}}; }
      if (two) { requests[1].options.seed = 9; }
      const enumeration found = enumerate(steps, source, requests);
      CHECK(std::abs(found.total - 1.0) <= law_tolerance);
      largest = std::max(largest, distance(found.law, joint_law(p, requests)));
    }
    return largest;
  };
  const auto gap = [&](auto verifier, std::uint64_t draft_salt) {
    double largest = 0.0;
    for (const std::uint64_t bad : {0u, 1u, 2u, 3u}) {  // rows without a law, but for the first
      const std::uint64_t bad_draft = bad % 2 == 1 ? 10 + bad : 0;
      largest = std::max(largest, gap_of(verifier, {3, 31, flavour::smooth, 0, nullptr, bad},
                                         {3, draft_salt, flavour::sharp, 0, nullptr, bad_draft}));
    }
    return largest;
  };
  CHECK(gap(verifier::rejection{}, 32) <= law_tolerance);
  CHECK(gap(verifier::block{}, 33) <= law_tolerance);
  CHECK(gap(verifier::point_mass{}, 34) <= law_tolerance);
}

TEST_CASE("requests join and leave, and caches are clean") {
  toy_target<float> toy{target_world};
  toy_draft<float> small{draft_world};
  resident_target<float> target{toy, 2 * (length + 1) + 2};
  resident_draft<float> draft{small};
  resident_decoder d{target,
                     drafter::autoregressive{draft, chain{}},
                     selector::full{vocab},
                     plain_sampler{},
                     verifier::rejection{},
                     resident_options{.max_batch = 2, .max_length = 64, .chunk = 2},
                     random_source<>{},
                     hidden_host{}};
  const text prompt{1, 2, 3};
  generation_options o = ask(30);
  o.seed = 4;
  const std::vector<token> expected = d.generate(prompt, o).tokens;
  CHECK(expected.size() == 30);
  const request_id first = d.add(prompt, ask(40));
  d.run(3);
  const request_id second = d.add(text{5}, ask(40));
  CHECK_THROWS_AS(d.add(prompt, o), std::length_error);
  d.run(2);
  CHECK(d.cancel(first));
  CHECK_FALSE(d.cancel(first));
  CHECK(d.running() == 1);
  CHECK(toy.cache().tokens(0).empty());
  CHECK(d.generate(prompt, o).tokens == expected);  // in the slot of the first, beside the second
  CHECK_FALSE(d.cancel(second));                    // which has ended by now
  CHECK(d.running() == 0);
  CHECK(toy.cache().tokens(1).empty());
  CHECK(small.cache().tokens(1).empty());
  d.run();  // nothing to do
  toy.cache().check();
  small.cache().check();
}

TEST_CASE("requests join and are cancelled while a loop runs, and nobody waits for its end") {
  constexpr std::int32_t slots = 4;
  const std::vector<request> requests = requests_of(kind::sampled);
  toy_draft<float> alone{draft_world};
  const outcome expected = stepped(drafter::autoregressive{alone, chain{}}, selector::full{vocab},
                                   plain_sampler{}, verifier::rejection{}, requests);
  toy_target<float> toy{target_world};
  toy_draft<float> small{draft_world};
  resident_target<float> target{toy, slots * (length + 1) + 3};
  resident_draft<float> draft{small};
  threaded_host executor;
  const auto loops = executor.loops;
  {
    resident_decoder d{
        target,
        drafter::autoregressive{draft, chain{}},
        selector::full{vocab},
        plain_sampler{},
        verifier::rejection{},
        resident_options{.max_batch = slots, .max_length = 40000, .chunk = 3, .ring = 1 << 16},
        random_source<>{},
        executor};
    outcome out{std::vector<text>(requests.size()),
                std::vector<finish_reason>(requests.size(), finish_reason::none)};
    std::map<request_id, std::size_t> of;
    std::size_t ended = 0;
    std::map<request_id, std::size_t> others;  // what requests wrote that are cancelled
    const auto poll = [&] {
      d.poll([&](const ring_entry& e) {
        const auto found = of.find(e.id);
        if (found == of.end()) {
          ++others[e.id];
          return;
        }
        if (e.t != no_token) { out.texts[found->second].push_back(e.t); }
        out.ends[found->second] = e.finish;
        ended += e.finish != finish_reason::none ? 1 : 0;
      });
      d.run();
      std::this_thread::yield();
    };
    // One runs all the time, and keeps its loop alive; all others come while it does.
    const request_id longest = d.add(text{1}, ask(39000));
    // So that the loop goes over all slots from the beginning.
    const request_id last[] = {d.add(text{2}, ask(20000)), d.add(text{3}, ask(20000)),
                               d.add(text{4}, ask(20000))};
    d.run();
    CHECK(*loops == 1);
    for (const request_id id : last) {
      while (others[id] < 3) { poll(); }
      CHECK(d.cancel(id));
      CHECK_FALSE(d.cancel(id));
    }
    CHECK(d.running() == 1);
    std::size_t added = 0;
    while (ended < requests.size()) {
      try {
        while (added < requests.size()) {
          of[d.add(requests[added].prompt, requests[added].options)] = added;
          ++added;
        }
      } catch (const std::length_error&) {}  // until one has ended
      poll();
    }
    CHECK(*loops == 1);
    CHECK(d.runs());
    CHECK(out == expected);
    CHECK(others.at(longest) < 39000);
    CHECK(d.cancel(longest));
    const std::size_t seen = others.at(longest);
    while (d.runs()) {
      d.poll([&](const ring_entry&) { FAIL("a text that was cancelled"); });
    }
    CHECK(others.at(longest) == seen);
    CHECK(d.running() == 0);
    CHECK(d.stats().drafted > 0);
    // The loop has ended; the next request begins another one.
    CHECK(d.generate(requests[0].prompt, requests[0].options).tokens == expected.texts[0]);
    CHECK(*loops > 1);
  }
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    CHECK(toy.cache().tokens(slot).empty());
    CHECK(small.cache().tokens(slot).empty());
  }
  toy.cache().check();
  small.cache().check();
}

TEST_CASE("a request for which a loop has no place ends it, and the next one begins with it") {
  toy_target<float> toy{target_world};
  resident_target<float> target{toy, 8};
  threaded_host executor;
  const auto loops = executor.loops;
  resident_decoder d{
      target,
      drafter::none{},
      selector::full{vocab},
      plain_sampler{},
      verifier::rejection{},
      resident_options{.max_batch = 2, .max_length = 40000, .chunk = 3, .ring = 1 << 16},
      random_source<>{},
      executor};
  std::map<request_id, std::size_t> seen;
  const auto poll = [&] {
    d.poll([&](const ring_entry& e) { ++seen[e.id]; });
    d.run();
    std::this_thread::yield();
  };
  const request_id first = d.add(text{1}, ask(30000));
  while (seen[first] < 5) { poll(); }
  const request_id second = d.add(text{2}, ask(5));
  while (seen[second] < 5) { poll(); }
  CHECK(*loops >= 2);
  CHECK(d.runs());
  CHECK(d.running() == 1);
}

TEST_CASE("a loop that is gone is not known any more, another may lie where it lay") {
  recording_host executor;
  for (int n = 0; n < 2; ++n) {
    toy_target<float> toy{target_world};
    resident_target<float> target{toy, 9};
    {
      resident_decoder d{target,
                         drafter::none{},
                         selector::full{vocab},
                         plain_sampler{},
                         verifier::rejection{},
                         resident_options{.max_length = 20, .chunk = 8},
                         random_source<>{},
                         executor};
      CHECK(d.generate(text{1, 2}, ask(4)).tokens.size() == 4);
      CHECK(executor.recorded->size() == 1);
    }
    CHECK(executor.recorded->empty());
  }
}

TEST_CASE("an error of a row ends its request, and no other") {
  toy_target<double> toy{{5, 93, flavour::smooth}};
  toy.edit = [](std::uint64_t seen, std::int32_t, double* row) {
    if (seen % 7 == 0) { row[0] = std::numeric_limits<double>::quiet_NaN(); }
  };
  resident_target<double> target{toy, 2 + 1};
  resident_decoder d{target,
                     drafter::none{},
                     selector::full{5},
                     plain_sampler{},
                     verifier::rejection{},
                     resident_options{.max_batch = 2, .max_length = 400, .chunk = 1}};
  std::map<request_id, std::pair<std::size_t, status>> seen;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    generation_options o = ask(300);
    o.seed = seed;
    seen[d.add(text{1}, o)] = {};
  }
  while (d.running() > 0) {
    d.run();
    d.poll([&](const ring_entry& e) {
      seen[e.id].first += e.t != no_token ? 1 : 0;
      if (e.finish == finish_reason::error) { seen[e.id].second = e.status; }
    });
  }
  for (const auto& [id, found] : seen) {
    CHECK(found.first < 300);
    CHECK(found.second == status::invalid_logits);
  }
  const finished_text ended = d.generate(text{1}, ask(300));
  CHECK(ended.finish == finish_reason::error);
  CHECK(ended.status == status::invalid_logits);
  CHECK(ended.tokens.size() > 0);
}

TEST_CASE("a step in which a model throws is repeated") {
  failure_plan plan;
  toy_target<float> toy{target_world};
  toy.failures = &plan;
  resident_target<float> target{toy, 3};
  resident_decoder d{
      target,          drafter::none{},       selector::full{vocab},
      plain_sampler{}, verifier::rejection{}, resident_options{.max_length = 32, .chunk = 2}};
  const std::vector<token> expected = d.generate(text{1, 2, 3, 4, 5}, ask(4)).tokens;
  for (std::int64_t call = 0; call < 4; ++call) {
    plan.fail_at = plan.calls + call;
    std::vector<token> tokens;
    const request_id id = d.add(text{1, 2, 3, 4, 5}, ask(4));
    bool threw = false;
    while (d.running() > 0) {
      try {
        d.run();
      } catch (const planned_failure&) { threw = true; }
      d.poll([&](const ring_entry& e) {
        CHECK(e.id == id);
        tokens.push_back(e.t);
      });
    }
    CHECK(threw);
    CHECK(tokens == expected);
  }
  CHECK(toy.cache().tokens(0).empty());
}

TEST_CASE("what needs the host in every step is refused, and so is what does not fit") {
  toy_target<float> toy{target_world};
  resident_target<float> target{toy, 300};
  const auto make = [&](resident_options options) {
    resident_decoder d{target,        drafter::none{},       selector::full{vocab},
                       every_stage{}, verifier::rejection{}, options};
  };
  CHECK_THROWS_AS(make({.max_batch = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_length = 1}), std::invalid_argument);
  CHECK_THROWS_AS(make({.chunk = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.draft_length = 0}), std::invalid_argument);
  CHECK_THROWS_AS(make({.max_bias = -1}), std::invalid_argument);
  CHECK_THROWS_AS(make({.ring = 0}), std::invalid_argument);
  resident_decoder d{
      target,        drafter::none{},       selector::full{vocab},
      every_stage{}, verifier::rejection{}, resident_options{.max_length = 20, .max_bias = 1}};
  const auto refused = [&](auto change) {
    generation_options o = ask(4);
    change(o);
    CHECK_THROWS_AS(d.add(text{1, 2}, o), std::invalid_argument);
  };
  refused([](auto& o) { o.stop_strings = {"a"}; });
  refused([](auto& o) { o.log_probabilities = 1; });
  refused([](auto& o) { o.grammar = toy_grammar{vocab}; });
  refused([](auto& o) { o.stop_tokens.assign(9, 1); });
  refused([](auto& o) { o.bias = {{1, 1.0f}, {2, 1.0f}}; });
  refused([](auto& o) { o.max_new_tokens = 19; });
  refused([](auto& o) { o.temperature = -1.0f; });
  CHECK_THROWS_AS(d.add(text{vocab}, ask(4)), std::invalid_argument);
  CHECK_THROWS_WITH_AS(d.add(text{}, ask(4)),
                       "hunch::resident_decoder: the prompt is empty; begin with the model's start "
                       "token",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      d.add(text{1}, {.max_new_tokens = 4, .stop_tokens = {vocab}}),
      ("hunch::resident_decoder: invalid_token: a stop token " + std::to_string(vocab) +
       ", the vocabulary has " + std::to_string(vocab) + " tokens")
          .c_str(),
      std::invalid_argument);
  CHECK(d.generate(text{1, 2}, ask(18)).tokens.size() == 18);
}

}  // namespace
}  // namespace hunch::test::resident_test

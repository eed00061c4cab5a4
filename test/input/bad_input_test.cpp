// SPDX-License-Identifier: Apache-2.0

// What bad input gets: an error that names it, for that request alone, and an unchanged state.

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/tools/frequency_ranking.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/stages.hpp"
#include "../support/tree_drafter.hpp"
#include "scripted_drafter.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t vocab = 4;
constexpr toy_world target_world{vocab, 91, flavour::smooth};
constexpr toy_world draft_world{vocab, 92, flavour::smooth};
constexpr double infinity = std::numeric_limits<double>::infinity();

/// How one request of a decoder ended.
struct result {
  text emitted;
  finish_reason finish = finish_reason::none;
  status why = status::ok;
  std::size_t cut = 0;
};

template <class Decoder>
std::vector<result> run(Decoder& d, const std::vector<request>& requests) {
  std::vector<result> results(requests.size());
  std::vector<request_id> ids;
  for (const request& r : requests) { ids.push_back(d.add(r.prompt, r.options)); }
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      result& r = results[static_cast<std::size_t>(std::ranges::find(ids, e.id) - ids.begin())];
      r.emitted.insert(r.emitted.end(), e.tokens.begin(), e.tokens.end());
      r.finish = e.finish;
      r.why = e.status;
      r.cut = e.cut_bytes;
    }
  }
  return results;
}

/// Request 1 reads token 0 somewhere, request 0 never does: rows of texts that end with 0 are bad.
template <class Edit>
row_editor bad_when(Edit) {
  return [](std::uint64_t text, std::int32_t size, double* row) {
    if (text == hash_of(std::vector<token>{1, 0})) { Edit{}(size, row); }
  };
}

const decoder_options two{.max_batch = 2, .chunk = 256, .draft_length = 99, .token_text = {}};

const auto nan_row = [](std::int32_t, double* row) { row[2] = std::nan(""); };
const auto infinite_row = [](std::int32_t, double* row) { row[1] = infinity; };
const auto empty_row = [](std::int32_t n, double* row) { std::fill(row, row + n, -infinity); };
const auto single_row = [](std::int32_t n, double* row) {
  std::fill(row, row + n, -infinity);
  row[3] = -5.0;
};

/// Calls check(drafter, sampler, rule, temperature) for every rule on chains and on trees, drafted
/// by a model over `world`.
template <class Check>
void for_every_rule(Check&& check, const toy_world& world = draft_world) {
  toy_draft<> draft{world};
  const auto chain = [&] { return drafter::autoregressive{draft, tree::chain<3>{}}; };
  const std::vector<std::int32_t> shape{-1, 0, 0, 1};
  using enum child_law;
  const tree_drafter<independent> repeating{world, shape};
  const tree_drafter<without_replacement> distinct{world, shape};
  const tree_drafter<ranked> best{world, shape};
  check(chain(), plain_sampler{}, verifier::rejection{}, 1.0f);
  check(chain(), every_stage{}, verifier::rejection{}, 0.7f);
  check(chain(), plain_sampler{}, verifier::rejection{}, 0.0f);
  check(chain(), sampler::greedy{}, verifier::greedy{}, 0.0f);
  check(chain(), sampler::greedy{}, verifier::rejection{}, 0.0f);
  check(chain(), plain_sampler{}, verifier::block{}, 1.0f);
  check(chain(), every_stage{}, verifier::block{}, 0.7f);
  check(chain(), plain_sampler{}, verifier::point_mass{}, 1.0f);
  check(chain(), every_stage{}, verifier::coupled{}, 1.0f);
  check(chain(), plain_sampler{}, verifier::typical{}, 1.0f);
  check(chain(), plain_sampler{}, verifier::top_k{2}, 1.0f);
  check(repeating, plain_sampler{}, verifier::rejection{}, 1.0f);
  check(distinct, every_stage{}, verifier::rejection{}, 1.0f);
  check(distinct, plain_sampler{}, verifier::coupled{}, 1.0f);
  check(best, every_stage{}, verifier::point_mass{}, 1.0f);
  check(best, sampler::greedy{}, verifier::greedy{}, 0.0f);
  check(best, plain_sampler{}, verifier::typical{}, 1.0f);
  check(best, plain_sampler{}, verifier::top_k{2}, 1.0f);
}

TEST_CASE("target rows without a law end their request, and no other") {
  for_every_rule([](auto drafter, auto sampler, auto rule, float temperature) {
    const std::vector<request> requests{{{2, 3}, ask(6, temperature)},
                                        {{1, 0}, ask(6, temperature)}};
    toy_target<> target{target_world};
    decoder d{target, std::move(drafter), selector::full{vocab}, sampler, rule, two};
    const auto good = run(d, requests);
    REQUIRE(good[1].finish == finish_reason::length);
    const auto check = [&](row_editor edit, status expected) {
      target.edit = edit;
      const auto bad = run(d, requests);
      CHECK(bad[0].emitted == good[0].emitted);
      CHECK(bad[0].finish == finish_reason::length);
      CHECK(bad[1].why == expected);
      if (expected == status::ok) {
        CHECK(bad[1].finish == finish_reason::length);
        CHECK(bad[1].emitted[0] == 3);
      } else {
        CHECK(bad[1].finish == finish_reason::error);
        CHECK(bad[1].emitted.empty());
      }
      CHECK(target.cache().tokens(0).empty());
      CHECK(target.cache().tokens(1).empty());
    };
    check(bad_when(nan_row), status::invalid_logits);
    check(bad_when(infinite_row), status::invalid_logits);
    check(bad_when(empty_row), status::invalid_logits);
    check(bad_when(single_row), status::ok);
  });
}

TEST_CASE("what was accepted before an error is emitted and reported, by every rule") {
  // There is one text, and a draft model that knows it; the row after seven of its tokens is bad.
  constexpr toy_world one{vocab, 95, flavour::one_hot};
  const text prompt{1, 0};
  constexpr std::size_t before = 7;
  text whole = prompt;
  while (whole.size() < prompt.size() + before) {
    whole.push_back(by_rank(one.logits(hash_of(whole)))[0]);
  }
  static std::uint64_t bad_text = 0;
  bad_text = hash_of(whole);
  const text expected(whole.begin() + std::ssize(prompt), whole.end());
  for_every_rule(
      [&](auto drafter, auto sampler, auto rule, float temperature) {
        toy_target<> target{one};
        target.edit = [](std::uint64_t seen, std::int32_t, double* row) {
          if (seen == bad_text) { row[1] = -std::nan(""); }
        };
        decoder d{target,
                  std::move(drafter),
                  selector::full{vocab},
                  sampler,
                  rule,
                  decoder_options{.max_log_probabilities = 1, .token_text = {}}};
        generation_options o = ask(20, temperature);
        o.log_probabilities = 1;
        d.add(prompt, o);
        text emitted;
        while (d.running() > 0) {
          for (const emission& e : d.step()) {
            CHECK(e.origins.size() == e.tokens.size());
            REQUIRE(e.log_probabilities.size() == 2 * e.tokens.size());
            for (std::size_t i = 0; i < e.tokens.size(); ++i) {
              CHECK(e.log_probabilities[2 * i].t == e.tokens[i]);
              CHECK(e.log_probabilities[2 * i].log_probability == 0.0f);
              CHECK(e.log_probabilities[2 * i + 1].t == e.tokens[i]);
            }
            emitted.insert(emitted.end(), e.tokens.begin(), e.tokens.end());
            if (e.finish == finish_reason::none) { continue; }
            CHECK(e.finish == finish_reason::error);
            CHECK(e.status == status::invalid_logits);
            CHECK(!e.tokens.empty());  // accepted in the step that met the error
          }
        }
        CHECK(emitted == expected);
        CHECK(d.stats().emitted == static_cast<std::int64_t>(before));
        CHECK(d.stats().accepted + d.stats().steps - 1 == d.stats().emitted);
        CHECK(target.cache().tokens(0).empty());
        // A range gives the same tokens, and then why there are no more.
        text read;
        auto range = d.generate(prompt, ask(20, temperature));
        for (const token t : range) { read.push_back(t); }
        CHECK(read == expected);
        CHECK(range.finish() == finish_reason::error);
        CHECK(range.status() == status::invalid_logits);
      },
      one);
}

TEST_CASE("a request whose biases exclude everything ends, and no other") {
  constexpr float never = -std::numeric_limits<float>::infinity();
  for_every_rule([](auto drafter, auto sampler, auto rule, float temperature) {
    if constexpr (std::is_same_v<decltype(sampler), every_stage>) {
      std::vector<request> requests{{{2, 3}, ask(6, temperature)}, {{1, 0}, ask(6, temperature)}};
      toy_target<> target{target_world};
      decoder d{target, std::move(drafter), selector::full{vocab}, sampler, rule, two};
      const auto good = run(d, requests);
      auto& bias = requests[1].options.bias;
      bias = {{0, never}, {1, never}, {2, never}};
      const auto single = run(d, requests);
      CHECK(single[1].emitted == text(6, 3));
      bias.push_back({3, never});
      const auto none = run(d, requests);
      CHECK(none[0].emitted == good[0].emitted);
      CHECK(none[1].finish == finish_reason::error);
      CHECK(none[1].why == status::empty_support);
      CHECK(none[1].emitted.empty());
      // What is wrong with the row is wrong whatever is excluded.
      target.edit = bad_when(nan_row);
      CHECK(run(d, requests)[1].why == status::invalid_logits);
    }
  });
}

TEST_CASE("rows that plain decoding never reads may hold anything, by every rule") {
  // There is one text; after all others, and after its stop token, no row has a law.
  constexpr toy_world one{vocab, 95, flavour::one_hot};
  const text prompt{1, 0};
  static std::set<std::uint64_t> read_texts;
  read_texts.clear();
  text whole = prompt;
  while (whole.size() < 8) {
    read_texts.insert(hash_of(whole));
    whole.push_back(by_rank(one.logits(hash_of(whole)))[0]);
  }
  const text expected(whole.begin() + std::ssize(prompt), whole.end());
  REQUIRE(std::ranges::count(expected, expected.back()) == 1);
  for (const toy_world& draft : {one, draft_world}) {  // accepted to its end, and refused
    for_every_rule(
        [&](auto drafter, auto sampler, auto rule, float temperature) {
          toy_target<> target{one};
          target.edit = [](std::uint64_t seen, std::int32_t, double* row) {
            if (!read_texts.contains(seen)) { row[1] = std::nan(""); }
          };
          decoder d{target, std::move(drafter), selector::full{vocab}, sampler, rule, two};
          request r{prompt, ask(20, temperature)};
          r.options.stop_tokens = {expected.back()};
          for (std::uint64_t seed = 0; seed < 8; ++seed) {
            r.options.seed = seed;
            const auto found = run(d, {r});
            CHECK(found[0].emitted == expected);
            CHECK(found[0].finish == finish_reason::stop_token);
          }
        },
        draft);
  }
}

TEST_CASE("draft rows without a law end the draft, and the text stays exact") {
  for (const row_editor edit : {bad_when(nan_row), bad_when(infinite_row), bad_when(empty_row)}) {
    const exact_case c{target_world, draft_world, {{{1, 0}, ask(3)}}};
    forking_source source;
    toy_target<> target{c.target};
    toy_draft<> draft{c.draft};
    draft.edit = edit;
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<3>{}},
              selector::full{vocab},
              plain_sampler{},
              verifier::rejection{},
              two,
              source};
    check_law(d, source, c);
    CHECK(d.stats().drafted < 2 * d.stats().steps);
  }
}

/// A decoder of drafts that are told.
template <child_law Children, bool IsChain, class V = verifier::rejection>
auto scripted_decoder(toy_target<>& target, scripted_tree<Children, IsChain> drafter, V rule = {}) {
  return decoder{target,          std::move(drafter), selector::full{vocab},
                 plain_sampler{}, std::move(rule),    two};
}

TEST_CASE("what is no token takes nothing from the text in front of it, and no model reads it") {
  // One token can come after each text, so that what is drafted right is accepted by all rules.
  toy_target<> target{target_world};
  target.edit = [](std::uint64_t text, std::int32_t size, double* row) {
    std::fill(row, row + size, -infinity);
    row[text % static_cast<std::uint64_t>(size)] = 0.0;
  };
  const std::vector<request> requests{{{2, 3}, ask(6)}, {{1, 0}, ask(6)}};
  auto good = scripted_decoder(target, scripted_drafter{});
  const auto expected = run(good, requests);
  const text& right = expected[0].emitted;
  const auto other = [](token t) { return (t + 1) % vocab; };
  enum class noticed { at_once, perhaps };
  /// \param least tokens that are emitted before it is noticed that node `at` + 1 is no token.
  const auto check = [&](auto drafter, auto rule, std::size_t at, std::size_t least,
                         noticed when = noticed::perhaps) {
    CAPTURE(at);
    for (const token wrong : {-1, -2147483647, vocab, 1 << 30}) {
      CAPTURE(wrong);
      drafter.script[at] = wrong;
      auto d = scripted_decoder(target, drafter, rule);
      const auto results = run(d, requests);
      const bool whole = results[0].emitted == right;
      CHECK(results[0].finish == (whole ? finish_reason::length : finish_reason::error));
      CHECK(results[0].why == (whole ? status::ok : status::invalid_token));
      const text& emitted = results[0].emitted;
      CHECK(emitted.size() >= least);
      if (when == noticed::at_once) { CHECK(emitted.size() == least); }
      CHECK(std::equal(emitted.begin(), emitted.end(), right.begin()));
      CHECK(results[1].emitted == expected[1].emitted);
      CHECK(results[1].finish == finish_reason::length);
    }
  };
  const std::vector<double> row{0.5, 0.25, 0.125, 1.0};
  using enum child_law;
  const auto check_all = [&](auto drafter, auto rule) {
    drafter.row = row;
    drafter.script = {right[0], right[1], right[2]};
    drafter.parents = {0, 1, 2};
    for (const std::size_t at : {0u, 1u, 2u}) { check(drafter, rule, at, at, noticed::at_once); }
    // The text takes another way in the first step.
    drafter.script = {other(right[0]), right[1], right[2]};
    for (const std::size_t at : {1u, 2u}) { check(drafter, rule, at, 1); }
    if constexpr (!decltype(drafter)::is_chain) {
      drafter.parents = {0, 0, 1};  // the sibling is not asked for
      drafter.script = {right[0], other(right[0]), right[1]};
      check(drafter, rule, 1, 2);
      check(drafter, rule, 2, 1);
      drafter.script = {other(right[0]), right[0], right[1]};
      check(drafter, rule, 1, 0, noticed::at_once);
      check(drafter, rule, 2, 2);
    }
  };
  check_all(scripted_drafter{}, verifier::rejection{});
  check_all(scripted_drafter{}, verifier::block{});
  check_all(scripted_tree<independent, false>{}, verifier::rejection{});
  check_all(scripted_tree<without_replacement, false>{}, verifier::rejection{});
  check_all(scripted_tree<ranked, false>{}, verifier::point_mass{});
  check_all(scripted_tree<ranked, false>{}, verifier::coupled{});
  check_all(scripted_tree<ranked, false>{}, verifier::typical{});
}

/// How a request ended whose draft was told.
template <child_law Children, bool IsChain, class V = verifier::rejection>
result run_scripted(scripted_tree<Children, IsChain> drafter, V rule = {}, std::uint64_t seed = 0) {
  toy_target<> target{target_world};
  auto d = scripted_decoder(target, std::move(drafter), rule);
  request r{{2, 3}, ask(6)};
  r.options.seed = seed;
  return run(d, {r})[0];
}

TEST_CASE("a drafted token that its own law excludes is an error") {
  const auto check = [](const result& r) {
    CHECK(r.finish == finish_reason::error);
    CHECK(r.why == status::invalid_draft);
    CHECK(r.emitted.empty());
  };
  const std::vector<double> row{0.5, 0.25, -infinity, 1.0};
  using enum child_law;
  check(run_scripted(scripted_drafter{{2}, row}));
  check(run_scripted(scripted_drafter{{2}, row}, verifier::block{}));
  check(run_scripted(scripted_tree<independent, false>{{2, 1}, row, {0, 0}}));
  check(run_scripted(scripted_tree<without_replacement, false>{{2, 1}, row, {0, 0}}));
  // Rules that read no draft law have nothing to complain of.
  CHECK(run_scripted(scripted_drafter{{2}, row}, verifier::point_mass{}).why == status::ok);
  CHECK(run_scripted(scripted_drafter{{2}, row}, verifier::coupled{}).why == status::ok);
}

TEST_CASE("a sibling that is wrong is an error when its turn comes, and not before") {
  const auto count_errors = [](auto drafter) {
    std::int32_t errors = 0;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
      const result r = run_scripted(drafter, verifier::rejection{}, seed);
      CHECK((r.why == status::ok || r.why == status::invalid_draft));
      CHECK((r.finish == finish_reason::length) == (r.why == status::ok));
      errors += r.why == status::ok ? 0 : 1;
    }
    return errors;
  };
  using enum child_law;
  const std::vector<double> excludes{0.5, 3.0, -infinity, 1.0};
  const std::int32_t excluded =
      count_errors(scripted_tree<independent, false>{{1, 2}, excludes, {0, 0}});
  CHECK(excluded > 0);
  CHECK(count_errors(scripted_tree<without_replacement, false>{{1, 2}, excludes, {0, 0}}) ==
        excluded);
  // Without replacement a token cannot come twice; independent children may be equal.
  const std::vector<double> row{0.5, 3.0, 0.0, 1.0};
  CHECK(count_errors(scripted_tree<without_replacement, false>{{1, 1}, row, {0, 0}}) > 0);
  CHECK(count_errors(scripted_tree<independent, false>{{1, 1}, row, {0, 0}}) == 0);
}

template <class Decoder>
void refuses(Decoder& d, const text& prompt, const generation_options& options, const char* why) {
  try {
    d.add(prompt, options);
    FAIL_CHECK("not refused: " << why);
  } catch (const std::invalid_argument& e) {
    CHECK(std::string(e.what()).find(why) != std::string::npos);
  }
  CHECK(d.running() == 0);
}

TEST_CASE("requests that are refused when they are added") {
  toy_target<> target{target_world};
  decoder d{target, drafter::none{}, selector::full{vocab}, full_sampler{}, verifier::rejection{}};
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  refuses(d, {}, ask(4), "hunch::decoder: the prompt is empty");
  refuses(d, {0, -1}, ask(4), "invalid_token");
  refuses(d, {vocab}, ask(4), "invalid_token");
  refuses(d, {0}, ask(0), "max_new_tokens");
  refuses(d, {0}, ask(-3), "max_new_tokens");
  for (const float t : {-0.1f, not_a_number, infinite, -infinite}) {
    refuses(d, {0}, ask(4, t), "invalid_parameter");
  }
  refuses(d, {0}, ask(4, 1.0f, -1), "invalid_parameter");
  for (const float p : {0.0f, -0.5f, 1.5f, not_a_number}) {
    refuses(d, {0}, ask(4, 1.0f, 0, p), "invalid_parameter");
  }
  generation_options stops = ask(4);
  stops.stop_strings = {"x"};
  refuses(d, {0}, stops, "token_text");
  stops.stop_strings = {""};
  refuses(d, {0}, stops, "empty");
  for (const token t : {-1, vocab, 1 << 30}) {
    stops = ask(4);
    stops.stop_tokens = {1, t};
    refuses(d, {0}, stops,
            ("hunch::decoder: invalid_token: a stop token " + std::to_string(t)).c_str());
  }
  CHECK(d.add(text{0}, ask(1, 0.0f, 3, 1.0f)) == 1);  // a refused request takes no id
}

TEST_CASE("values of edits and of log-probabilities that are refused when they are added") {
  toy_target<> target{target_world};
  decoder d{target,
            drafter::none{},
            selector::full{vocab},
            every_stage{},
            verifier::rejection{},
            decoder_options{.max_log_probabilities = 2, .token_text = {}}};
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const auto refuse = [&](auto&& change, const char* why) {
    generation_options o = ask(4);
    change(o);
    refuses(d, {0}, o, why);
  };
  for (const float x : {-0.1f, 1.1f, not_a_number, infinite, -infinite}) {
    refuse([=](auto& o) { o.min_p = x; }, "invalid_parameter");
  }
  for (const float x : {0.0f, -1.0f, not_a_number, infinite, -infinite}) {
    refuse([=](auto& o) { o.repetition_penalty = x; }, "invalid_parameter");
  }
  for (const float x : {not_a_number, infinite, -infinite}) {
    refuse([=](auto& o) { o.presence_penalty = x; }, "invalid_parameter");
    refuse([=](auto& o) { o.frequency_penalty = x; }, "invalid_parameter");
  }
  for (const float x : {not_a_number, infinite}) {
    refuse([=](auto& o) { o.bias = {{1, 0.5f}, {2, x}}; }, "invalid_parameter");
  }
  for (const token t : {-1, vocab, 1 << 30}) {
    refuse([=](auto& o) { o.bias = {{1, 0.5f}, {t, 0.5f}}; }, "invalid_token");
  }
  refuse([](auto& o) { o.bias = {{1, 0.5f}, {2, 0.5f}, {1, 0.5f}}; }, "two biases");
  refuse([](auto& o) { o.log_probabilities = -1; }, "must not be negative");
  refuse([](auto& o) { o.log_probabilities = 3; }, "max_log_probabilities");
  generation_options legal = with_every_stage(ask(2), vocab);
  legal.bias.push_back({2, -infinite});
  legal.min_p = 1.0f;
  legal.log_probabilities = 2;
  CHECK(d.add(text{0}, legal) == 1);
}

TEST_CASE("log-probabilities without room for them are refused") {
  toy_target<> target{target_world};
  decoder d{target, drafter::none{}, selector::full{vocab}, plain_sampler{}, verifier::rejection{}};
  generation_options o = ask(2);
  o.log_probabilities = 0;
  refuses(d, {0}, o, "max_log_probabilities");
}

TEST_CASE("a parameter for which there is no stage is refused, never ignored") {
  toy_target<> target{target_world};
  decoder plain{target, drafter::none{}, selector::full{vocab}, plain_sampler{},
                verifier::rejection{}};
  refuses(plain, {0}, ask(4, 1.0f, 2), "no stage");
  refuses(plain, {0}, ask(4, 1.0f, 0, 0.9f), "no stage");
  decoder greedy{target, drafter::none{}, selector::full{vocab}, sampler::greedy{},
                 verifier::greedy{}};
  refuses(greedy, {0}, ask(4, 0.7f), "no stage");
  refuses(greedy, {0}, ask(4, 0.0f, 1), "no stage");
  decoder top{target, drafter::none{}, selector::full{vocab}, sampler::pipeline{sampler::top_k{}},
              verifier::rejection{}};
  refuses(top, {0}, ask(4, 0.5f, 2), "no stage");
  CHECK(top.add(text{0}, ask(4, 1.0f, 2)) == 1);

  const auto each_edit = [](auto&& with) {
    with([](auto& o) { o.min_p = 0.1f; });
    with([](auto& o) { o.repetition_penalty = 1.1f; });
    with([](auto& o) { o.presence_penalty = 0.1f; });
    with([](auto& o) { o.frequency_penalty = 0.1f; });
    with([](auto& o) { o.bias = {{1, 0.0f}}; });
    with([](auto& o) { o.grammar = toy_grammar{vocab}; });
  };
  decoder all{target, drafter::none{}, selector::full{vocab}, every_stage{}, verifier::rejection{}};
  each_edit([&](auto&& change) {
    generation_options o = ask(4);
    change(o);
    refuses(plain, {0}, o, "no stage");
    refuses(greedy, {0}, o, "no stage");
    const request_id id = all.add(text{0}, o);
    CHECK(id > 0);
    all.cancel(id);
  });
}

template <class Build>
void does_not_fit(Build&& build, const char* one, const char* other) {
  try {
    build();
    FAIL_CHECK("constructed: " << one << ", " << other);
  } catch (const std::invalid_argument& e) {
    const std::string what = e.what();
    CAPTURE(what);
    CHECK(what.find(one) != std::string::npos);
    CHECK(what.find(other) != std::string::npos);
  }
}

TEST_CASE("parts that do not fit are named at construction") {
  toy_target<> target{target_world};
  const auto build = [&](const toy_world& world, const vocab_layout& head, vocab_layout selected) {
    toy_draft<> draft{world, head};
    decoder d{target, drafter::autoregressive{draft, tree::chain<2>{}},
              selector::full{std::move(selected)}, plain_sampler{}, verifier::rejection{}};
  };
  const auto identity = [](std::int32_t n) { return vocab_layout::identity(n); };
  does_not_fit([&] { build({5, 1}, identity(5), identity(vocab)); }, "vocabulary of 5", "target");
  does_not_fit([&] { build(draft_world, identity(vocab), identity(5)); }, "layout",
               "vocabulary of 5");
  does_not_fit([&] { build(draft_world, identity(vocab), shuffled_layout(vocab, vocab)); }, "head",
               "layout");
  does_not_fit(
      [&] { build(draft_world, shuffled_layout(vocab, 2), shuffled_layout(vocab, vocab)); }, "head",
      "layout");
  build(draft_world, shuffled_layout(vocab, 2), shuffled_layout(vocab, 2));
}

TEST_CASE("sizes of a decoder") {
  toy_target<> target{target_world};
  const auto build = [&](std::int32_t max_batch, std::int32_t chunk) {
    decoder d{target,
              drafter::none{},
              selector::full{vocab},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{
                  .max_batch = max_batch, .chunk = chunk, .draft_length = 0, .token_text = {}}};
  };
  does_not_fit([&] { build(0, 8); }, "max_batch", "at least 1");
  does_not_fit([&] { build(-1, 8); }, "max_batch", "at least 1");
  does_not_fit([&] { build(1, 1); }, "chunk", "at least 2");
  does_not_fit([&] { build(1, std::numeric_limits<std::int32_t>::max()); }, "max_batch", "chunk");
  does_not_fit([&] { build(1 << 16, 1 << 16); }, "max_batch", "chunk");
  build(1, 2);
  const auto report = [&](std::int32_t most) {
    decoder d{target,
              drafter::none{},
              selector::full{vocab},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{.max_log_probabilities = most, .token_text = {}}};
  };
  for (const std::int32_t most : {-2, std::numeric_limits<std::int32_t>::min(), vocab + 1,
                                  std::numeric_limits<std::int32_t>::max()}) {
    does_not_fit([&] { report(most); }, "max_log_probabilities is", "4 tokens of the vocabulary");
  }
  report(-1);
  report(vocab);
  does_not_fit(
      [&] {
        decoder d{target,
                  drafter::none{},
                  selector::full{vocab},
                  plain_sampler{},
                  verifier::rejection{},
                  decoder_options{.eager_rows = -2, .token_text = {}}};
      },
      "hunch::decoder", "eager_rows must be at least -1");
}

TEST_CASE("a text that is longer than a decoder has room for is refused") {
  toy_target<> target{target_world};
  decoder d{
      target,          drafter::none{},       selector::full{vocab},
      plain_sampler{}, verifier::rejection{}, decoder_options{.max_length = 8, .token_text = {}}};
  CHECK_THROWS_WITH_AS(d.add(text{1, 2, 3}, ask(6)),
                       "hunch::decoder: a prompt of 3 and max_new_tokens of 6 tokens: raise "
                       "decoder_options::max_length",
                       std::invalid_argument);
  CHECK(d.add(text{1, 2, 3}, ask(5)) > 0);
  does_not_fit(
      [&] {
        decoder none{target,
                     drafter::none{},
                     selector::full{vocab},
                     plain_sampler{},
                     verifier::rejection{},
                     decoder_options{.max_length = 1, .token_text = {}}};
      },
      "max_length", "at least 2");
}

/// Keeps a number for every token of a text, with room for all from the beginning.
struct keeps_all : drafter::none {
  template <class Real, class Executor>
  struct state {
    state(const drafter::none&, Executor&, const drafter_setup& setup)
        : kept(static_cast<std::size_t>(setup.max_batch) *
               static_cast<std::size_t>(setup.max_length)) {}
    std::vector<token> kept;
  };
  void check(const drafter_setup& setup) const { room = setup.max_length; }
  mutable std::int32_t room = 0;
};

TEST_CASE("a drafter is told how long a text may be") {
  toy_target<> target{target_world};
  keeps_all drafter;
  decoder d{target,
            drafter,
            selector::full{vocab},
            plain_sampler{},
            verifier::rejection{},
            decoder_options{.max_length = 77, .token_text = {}}};
  CHECK(drafter.room == 77);
}

TEST_CASE("a full batch refuses the next request and goes on") {
  toy_target<> target{target_world};
  decoder d{target,          drafter::none{},       selector::full{vocab},
            plain_sampler{}, verifier::rejection{}, two};
  d.add(text{1}, ask(3));
  const request_id second = d.add(text{2}, ask(3));
  CHECK_THROWS_WITH_AS(d.add(text{3}, ask(3)),
                       "hunch::decoder: 2 requests are running; raise decoder_options::max_batch",
                       std::length_error);
  CHECK(d.running() == 2);
  CHECK(d.cancel(second));
  CHECK(d.add(text{3}, ask(3)) == 3);
}

TEST_CASE("a target cache that runs full ends its request, and no other") {
  const std::vector<request> requests{{{1, 2, 3, 0, 1, 2}, ask(9)}, {{1}, ask(4)}};
  toy_target<> target{target_world, 8};
  toy_draft<> draft{draft_world};
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<3>{}},
            selector::full{vocab},
            plain_sampler{},
            verifier::rejection{},
            two};
  const auto results = run(d, requests);
  CHECK(results[0].finish == finish_reason::cache_full);
  CHECK(results[0].why == status::ok);
  CHECK(results[0].emitted.size() == 3);
  CHECK(results[1].finish == finish_reason::length);
  CHECK(results[1].emitted.size() == 4);
  for (const std::int32_t chunk : {2, 3, 256}) {  // a prompt that does not fit
    toy_target<> small{target_world, 4};
    decoder e{small,
              drafter::none{},
              selector::full{vocab},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{.max_batch = 2, .chunk = chunk, .draft_length = 0, .token_text = {}}};
    const auto refused = run(e, requests);
    CHECK(refused[0].finish == finish_reason::cache_full);
    CHECK(refused[0].emitted.empty());
    CHECK(refused[1].emitted.size() == 4);
  }
}

TEST_CASE("a layout names the row that is wrong") {
  does_not_fit([] { vocab_layout::permuted({0, 4}, 4); }, "row 1", "token 4");
  does_not_fit([] { vocab_layout::permuted({0, -1}, 4); }, "row 1", "token -1");
  does_not_fit([] { vocab_layout::permuted({2, 0, 2}, 4); }, "token 2", "0 and 2");
  does_not_fit([] { vocab_layout::permuted({}, 4); }, "vocabulary", "empty");
  does_not_fit([] { vocab_layout::identity(0); }, "vocabulary", "empty");
  does_not_fit([] { vocab_layout::identity(-5); }, "vocabulary", "empty");
  does_not_fit([] { selector::frequency(shuffled_layout(5, 4), 5); }, "5 rows", "head of 4");
  does_not_fit([] { selector::frequency(shuffled_layout(5, 4), 0); }, "0 rows", "head of 4");
  const std::vector<token> outside{1, 9};
  does_not_fit([&] { frequency_ranking(outside, 5); }, "token 9", "vocabulary of 5");
  does_not_fit([&] { frequency_ranking({}, 5, outside); }, "token 9", "vocabulary of 5");
}

TEST_CASE("a draft length outside the tree is brought into it") {
  toy_target<> target{target_world};
  toy_draft<> draft{draft_world};
  decoder d{target, drafter::autoregressive{draft, tree::chain<3>{}}, selector::full{vocab},
            plain_sampler{}, verifier::rejection{}};
  d.draft_length(-4);
  CHECK(d.draft_length() == 0);
  d.draft_length(1000);
  CHECK(d.draft_length() == 3);
}

TEST_CASE("a decoder stays where it is") {
  using decoder_type =
      decoder<toy_target<>&, drafter::none, selector::full, plain_sampler, verifier::rejection>;
  static_assert(!std::is_move_constructible_v<decoder_type>);
  static_assert(!std::is_copy_assignable_v<decoder_type>);
  toy_target<> target{target_world};
  const auto make = [&] {
    return decoder{target, drafter::none{}, selector::full{vocab}, plain_sampler{},
                   verifier::rejection{}};
  };
  auto d = make();
  CHECK(d.running() == 0);
}

TEST_CASE("an idle decoder, an unknown request, a range that is not read to its end") {
  toy_target<> target{target_world};
  decoder d{target, drafter::none{}, selector::full{vocab}, plain_sampler{}, verifier::rejection{}};
  CHECK(d.step().empty());
  CHECK_FALSE(d.cancel(0));
  CHECK_FALSE(d.cancel(7));
  {
    auto range = d.generate(text{1}, ask(5));
    CHECK(*range.begin() >= 0);
    CHECK(d.running() == 1);
    CHECK(range.finish() == finish_reason::none);
  }
  CHECK(d.running() == 0);
  CHECK(target.cache().tokens(0).empty());
}

TEST_CASE("a range whose request ended in the steps of another range ends too") {
  toy_target<> target{target_world};
  decoder d{target,          drafter::none{},       selector::full{vocab},
            plain_sampler{}, verifier::rejection{}, two};
  auto longer = d.generate(text{1}, ask(5));
  auto shorter = d.generate(text{2}, ask(2));
  std::int32_t tokens = 0;
  for (const token t : longer) { tokens += t >= 0 ? 1 : 0; }
  CHECK(tokens == 5);
  CHECK(shorter.begin() == shorter.end());
  CHECK(shorter.finish() == finish_reason::cancelled);
}

}  // namespace
}  // namespace hunch::test

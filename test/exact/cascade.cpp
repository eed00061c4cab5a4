// SPDX-License-Identifier: Apache-2.0

// The exact joint law of drafters that are asked in turn: whatever they are, by every rule, in
// batches, with prompts in pieces; who drafts, and what the others read; and what goes wrong if a
// copied token has another law than it was copied by.

#include <cstdint>
#include <stdexcept>
#include <utility>

#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/drafter_makers.hpp"
#include "../support/padded_grid_models.hpp"
#include "exact.hpp"
#include "steps.hpp"

namespace hunch::test::in_turn {
namespace {

constexpr length::fixed policy;
using lookup = drafter::lookup<2>;
using pairs = drafter::lookup<3, 2>;  ///< of tails of two tokens

/// A text that repeats itself now and then, so that either drafter has its turn.
exact_case repeating(flavour p, flavour q, std::int32_t length = 4, float temperature = 1.0f) {
  return {{3, 41, p}, {3, 42, q}, {{{0, 2, 1, 0}, ask(length, temperature)}}};
}

template <class Make, class V, class S = plain_sampler>
enumeration exact_cascade(exact_case c, const Make& make, V rule, S sampler = {}) {
  forking_source source;
  c.options.max_batch = batch_of(c);
  const selector::full all{c.target.vocab};
  grid_and_eagle models(c, all.layout());
  decoder d{models.target, make(models), all, sampler, rule, c.options, source};
  const enumeration found = check_law(d, source, c);
  models.target.cache().check();
  models.draft.cache().check();
  models.eagle.cache().check();
  return found;
}

/// Drafts in every other step of a sequence.
struct now_and_then {
  static constexpr bool needs_entropy = false;
  struct memory {
    bool rests = false;
  };
  std::int32_t begin(memory& m, std::int32_t max_depth) const { return m.rests ? 0 : max_depth; }
  bool continues(memory&, const length_evidence&) const { return true; }
  void observe(memory& m, std::int32_t, std::int32_t) const noexcept { m.rests = !m.rests; }
};

const auto copies_or_chain = [](auto& m) {
  return drafter::cascade{pairs{2}, by_model(chain{}, policy)(m)};
};
const auto copies_or_pairs = [](auto& m) {
  return drafter::cascade{pairs{2}, by_model(sampled_tree{}, policy)(m)};
};
const auto copies_or_eagle = [](auto& m) {
  return drafter::cascade{pairs{2}, by_eagle(chain{}, policy)(m)};
};
const auto copies_or_view = [](auto& m) {
  return drafter::cascade{pairs{2}, by_early_exit(chain{}, policy)(m)};
};
const auto copies_or_streams = [](auto& m) {
  return drafter::cascade{pairs{2}, by_streams(sampled_tree{}, policy)(m)};
};
const auto two_models = [](auto& m) {
  return drafter::cascade{by_model(chain{}, now_and_then{})(m), by_early_exit(chain{}, policy)(m)};
};
const auto three = [](auto& m) {
  return drafter::cascade{pairs{2}, by_model(chain{}, now_and_then{})(m),
                          by_eagle(chain{}, policy)(m)};
};
const auto nested = [](auto& m) {
  return drafter::cascade{drafter::cascade{pairs{2}, by_model(chain{}, now_and_then{})(m)},
                          by_heads(chain{}, policy)(m)};
};
// Ranked.
const auto copies_or_dynamic = [](auto& m) {
  return drafter::cascade{pairs{2}, by_model(deep_tree{}, policy)(m)};
};
const auto drawn_or_ranked = [](auto& m) {
  return drafter::cascade{by_model(chain{}, now_and_then{})(m), by_heads(fixed_tree{}, policy)(m)};
};

TEST_CASE("how children come about") {
  using model = drafter::autoregressive<toy_draft<>, chain>;
  using two = drafter::autoregressive<toy_draft<>, sampled_tree>;
  using tree = drafter::autoregressive<toy_draft<>, deep_tree>;
  CHECK(drafter::cascade<lookup, lookup>::children == child_law::ranked);
  CHECK(drafter::cascade<lookup, model>::children == model::children);
  CHECK(drafter::cascade<model, lookup>::children == model::children);
  CHECK(drafter::cascade<lookup, two>::children == two::children);
  CHECK(drafter::cascade<lookup, tree>::children == child_law::ranked);
  CHECK(drafter::cascade<model, tree>::children == child_law::ranked);
  CHECK(drafter::cascade<lookup, model>::is_chain);
  CHECK_FALSE(drafter::cascade<lookup, two>::is_chain);
}

TEST_CASE("drafters in turn are exact for every kind of law and every rule") {
  std::int64_t tapes = 0;
  for (const flavour p : all_flavours) {
    CAPTURE(static_cast<int>(p));
    const exact_case c = repeating(p, flavour::sharp, 3);
    const auto with = [&](const auto& make, auto rule) {
      tapes += exact_cascade(c, make, rule).tapes;
    };
    with(copies_or_chain, verifier::rejection{});
    with(copies_or_chain, verifier::block{});
    with(copies_or_chain, verifier::point_mass{});
    with(copies_or_pairs, verifier::rejection{});
    with(copies_or_eagle, verifier::rejection{});
    with(copies_or_view, verifier::block{});
    with(copies_or_streams, verifier::rejection{});
    with(two_models, verifier::rejection{});
    with(three, verifier::rejection{});
    with(nested, verifier::block{});
    with(copies_or_dynamic, verifier::point_mass{});
    with(drawn_or_ranked, verifier::point_mass{});
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("drafters in turn in a batch, with stops, in any draft length, with prompts in pieces") {
  for (const std::int32_t gamma : {0, 1, 2}) {
    exact_case c = repeating(flavour::smooth, flavour::sharp, gamma == 0 ? 2 : 3);
    c.requests.push_back({{2, 0, 0}, ask(2, 0.7f), 1});
    c.requests[0].options.seed = 5;
    c.requests[1].options.stop_tokens = {1};
    c.options.chunk = gamma == 1 ? 2 : 256;
    c.options.draft_length = gamma;
    exact_cascade(c, copies_or_chain, verifier::rejection{});
    exact_cascade(c, copies_or_view, verifier::rejection{});
    exact_cascade(c, three, verifier::rejection{});
    exact_cascade(c, copies_or_streams, verifier::point_mass{});
  }
}

TEST_CASE("greedy texts by drafters in turn") {
  for (const flavour p : all_flavours) {
    const exact_case c = repeating(p, flavour::smooth, 9, 0.0f);
    CHECK(exact_cascade(c, copies_or_chain, verifier::rejection{}).tapes == 1);
    CHECK(exact_cascade(c, three, verifier::greedy{}, sampler::greedy{}).tapes == 1);
  }
}

TEST_CASE("a model reads what was copied, and drafts where nothing is") {
  const auto steps = [](const auto& make, std::int32_t chunk = 256) {
    exact_case c = repeating(flavour::smooth, flavour::smooth, 12, 0.0f);
    c.draft = c.target;
    c.options.chunk = chunk;
    return exact_cascade(c, make, verifier::greedy{}, sampler::greedy{}).steps;
  };
  // A draft model that is the target: all that it drafts is accepted.
  CHECK(steps(by_model(chain{}, policy)) == 3.0);
  for (const std::int32_t chunk : {256, 2}) {
    // None of the copies is long enough to be better, and what the model drafts stays right.
    const double in_turn = steps(copies_or_chain, chunk);
    CHECK(in_turn >= steps(by_model(chain{}, policy), chunk));
    CHECK(in_turn <= steps([](auto&) { return pairs{2}; }, chunk));
  }
  // Nothing occurs twice at first, then everything: the last steps are copied.
  exact_case c{{1, 41, flavour::smooth}, {1, 41, flavour::smooth}, {{{0}, ask(14)}}};
  const auto far = [](auto& m) {
    return drafter::cascade{drafter::lookup<6>{1}, by_model(chain{}, policy)(m)};
  };
  // Of the model four tokens, then seven and three of copies.
  CHECK(exact_cascade(c, far, verifier::rejection{}).steps == doctest::Approx(3.0));
}

TEST_CASE("one drafter drafts, the first that can") {
  const selector::full all{3};
  const auto seen = [&](const auto& make, std::vector<token> prompt) {
    exact_case c{{3, 41, flavour::smooth}, {3, 42, flavour::smooth}, {{prompt, ask(1)}}};
    grid_and_eagle models(c, all.layout());
    decoder d{models.target,   make(models),          all,
              plain_sampler{}, verifier::rejection{}, decoder_options{}};
    d.add(c.requests[0].prompt, ask(8));
    d.step();
    struct what {
      step_summary step;
      std::int64_t lists;
    };
    return what{d.last_step(), d.stats().shortlists};
  };
  const auto copied = seen(copies_or_chain, {0, 2, 1, 0, 2});
  CHECK(copied.step.deepest == 3);
  CHECK(copied.step.levels == 3);
  CHECK(copied.step.deepest_computed == 0);
  CHECK(copied.step.computed == 0);
  CHECK(copied.lists == 0);  // nobody chose rows of a head
  const auto drawn = seen(copies_or_chain, {0, 2, 1});
  CHECK(drawn.step.deepest == 3);
  CHECK(drawn.step.deepest_computed == 3);
  CHECK(drawn.step.computed == 3);
  CHECK(drawn.lists == 3);
}

/// How two drafters fare that both want to draft.
TEST_CASE("what is contested is drafted if it brings more than the rival does") {
  // By what is expected of a copy: the sequence is new.
  const length::cost costs{.draft = 0.1, .expected = 0.5, .share = 0.0};
  const auto continues = [&](double rival, bool contested, double probability) {
    length::cost by = costs;
    by.rival = rival;
    length::cost::memory m;
    by.begin(m, 4);
    length_evidence e;
    e.ahead = true;
    e.contested = contested;
    e.probability = probability;
    e.rows = 1;
    return by.continues(m, e);
  };
  // Rows are free here: a copy never loses, unless it stands in the way of something.
  CHECK(continues(0.0, false, 0.3));
  CHECK(continues(1.2, true, 0.9));
  CHECK_FALSE(continues(3.0, true, 0.3));
  CHECK(continues(3.0, false, 0.3));
}

TEST_CASE("what is contested has to beat the rival, not the copies before it") {
  const double rows[] = {1.0, 1.3, 1.6, 1.9, 2.2};
  length::cost costs{.draft = 1.0, .rows = planner::row_costs(rows), .share = 0.0};
  length::cost::memory m;
  length_evidence e;
  e.ahead = true;
  e.contested = true;
  e.rows = 1;
  for (const auto& [probability, accepted] : {std::pair{0.95, 4}, {0.45, 1}}) {
    for (int step = 0; step < 200; ++step) {
      e.probability = probability;
      costs.begin(m, 4);
      for (e.depth = 0; e.depth < 4; ++e.depth) {
        e.rows = e.depth + 1;
        costs.continues(m, e);
      }
      costs.observe(m, 4, accepted);
      if (probability < 0.9 && step == 3) { break; }
    }
  }
  // A step of the likely ones brings 5 tokens for 2.2; one of these 1.7 or so for 1.3.
  e = {.depth = 0, .rows = 1, .ahead = true, .contested = true};
  e.probability = 0.45;
  const auto copies = [&](double rival) {
    costs.rival = rival;
    costs.begin(m, 4);
    return costs.continues(m, e);
  };
  CHECK(copies(1.2));
  CHECK_FALSE(copies(2.2));
}

/// Copies as `lookup` does, and says that it was half certain.
struct doubtful : drafter::lookup<2> {
  template <class State, class Drafts, class Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor& executor) const {
    drafter::lookup<2>::propose(s, slots, contexts, drafts, selector, sampler, draw, executor);
    for (std::int32_t k = 0; k < slots; ++k) {
      const auto tree = drafts.tree(k);
      for (std::int32_t node = 0; node + 1 < tree.count; ++node) { tree.laws[node].norm = 0.5; }
    }
  }
};

TEST_CASE("negative control: a copy with a law that it was not copied by") {
  const exact_case c = repeating(flavour::smooth, flavour::sharp, 2);
  const tree_case one_step{c.target, c.draft, c.requests[0], {}};
  const selector::full all{3};
  toy_draft<> draft{c.draft, all.layout()};
  using model = drafter::autoregressive<toy_draft<>&, chain>;
  const auto gap = [&](auto copies, auto rule) {
    return drafted_gap(one_step, drafter::cascade{std::move(copies), model{draft}}, all,
                       plain_sampler{}, rule);
  };
  CHECK(gap(lookup{1}, verifier::rejection{}) <= law_tolerance);
  CHECK(gap(lookup{1}, verifier::block{}) <= law_tolerance);
  CHECK(gap(doubtful{{1}}, verifier::rejection{}) > 1e-3);
  CHECK(gap(doubtful{{1}}, verifier::block{}) > 1e-3);
  CHECK(gap(doubtful{{1}}, verifier::point_mass{}) <= law_tolerance);  // which reads no law
}

}  // namespace
}  // namespace hunch::test::in_turn

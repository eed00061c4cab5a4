// SPDX-License-Identifier: Apache-2.0

// The exact joint law of several drafters in one tree: whatever they are, in batches, with prompts
// in pieces, with and without room; what a step accepts of it; and what goes wrong if the children
// of a merged tree are taken for draws.

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../support/drafter_makers.hpp"
#include "../support/padded_grid_models.hpp"
#include "exact.hpp"
#include "steps.hpp"

namespace hunch::test {
namespace {

constexpr length::fixed policy;
using lookup = drafter::lookup<3>;
using greedy_chain = tree::dynamic<1, 3, 4>;  ///< ranked

/// A text that repeats itself, so that what is looked up is accepted now and then.
exact_case repeating(flavour p, flavour q, std::int32_t length = 4, float temperature = 1.0f) {
  return {{3, 41, p}, {3, 42, q}, {{{0, 2, 1, 0}, ask(length, temperature)}}};
}

template <class Make, class V = verifier::point_mass, class S = plain_sampler>
enumeration exact_ensemble(exact_case c, const Make& make, V rule = {}, S sampler = {}) {
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

const auto copies_and_model = [](auto& m) {
  return drafter::ensemble{lookup{1}, by_model(deep_tree{}, policy)(m)};
};
const auto copies_and_eagle = [](auto& m) {
  return drafter::ensemble{drafter::nodes<7>{}, lookup{1}, by_eagle(deep_tree{}, policy)(m)};
};
const auto streams_and_copies = [](auto& m) {
  return drafter::ensemble{by_streams(fixed_tree{}, policy)(m), lookup{1}};
};
const auto heads_and_view = [](auto& m) {
  return drafter::ensemble{by_heads(deep_tree{}, policy)(m),
                           by_early_exit(fixed_tree{}, policy)(m)};
};
const auto pruned_and_drawn = [](auto& m) {
  return drafter::ensemble{by_pruned_heads(fixed_tree{}, policy)(m),
                           by_model(sampled_tree{}, policy)(m)};
};
const auto three = [](auto& m) {
  return drafter::ensemble{drafter::nodes<9>{}, lookup{1}, by_model(deep_tree{}, policy)(m),
                           by_heads(fixed_tree{}, policy)(m)};
};
const auto nested = [](auto& m) {
  return drafter::ensemble{copies_and_model(m), by_eagle(fixed_tree{}, policy)(m)};
};

template <class Use>
void for_each_ensemble(const Use& use) {
  use(copies_and_model);
  use(copies_and_eagle);
  use(streams_and_copies);
  use(heads_and_view);
  use(pruned_and_drawn);
  use(three);
  use(nested);
}

TEST_CASE("merged trees are exact for every kind of law") {
  std::int64_t tapes = 0;
  for (const flavour p : all_flavours) {
    CAPTURE(static_cast<int>(p));
    const exact_case c = repeating(p, flavour::sharp, 3);
    for_each_ensemble([&](const auto& make) { tapes += exact_ensemble(c, make).tapes; });
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("merged trees in a batch, with stops, in any draft length, with prompts in pieces") {
  for (const std::int32_t gamma : {0, 1, 2}) {
    exact_case c = repeating(flavour::smooth, flavour::sharp, gamma == 0 ? 2 : 3);
    c.requests.push_back({{2, 0, 0}, ask(2, 0.7f), 1});
    c.requests[0].options.seed = 5;
    c.requests[1].options.stop_tokens = {1};
    c.options.chunk = gamma == 1 ? 2 : 256;
    c.options.draft_length = gamma;
    exact_ensemble(c, copies_and_eagle);
    exact_ensemble(c, streams_and_copies);
    exact_ensemble(c, heads_and_view);
    exact_ensemble(c, nested);
  }
}

TEST_CASE("greedy texts over merged trees") {
  for (const flavour p : all_flavours) {
    const exact_case c = repeating(p, flavour::smooth, 9, 0.0f);
    CHECK(exact_ensemble(c, copies_and_eagle, verifier::greedy{}, sampler::greedy{}).tapes == 1);
    CHECK(exact_ensemble(c, heads_and_view, verifier::greedy{}, sampler::greedy{}).tapes == 1);
  }
}

/// A model that is the target, and texts that are looked up further than it drafts: whatever of a
/// path is whose, the next draft of the model is right.
TEST_CASE("a drafter reads what others have drafted") {
  const auto steps = [](const auto& make) {
    exact_case c = repeating(flavour::smooth, flavour::smooth, 12, 0.0f);
    c.draft = c.target;
    return exact_ensemble(c, make).steps;
  };
  const auto with = [&](const auto& by, double own) {
    CHECK(steps(by(greedy_chain{}, policy)) == own);
    CHECK(steps([&](auto& m) {
            return drafter::ensemble{drafter::lookup<6>{1}, by(greedy_chain{}, policy)(m)};
          }) <= own);
  };
  with(by_model, 3.0);
  with(by_eagle,
       4.0);  // which reads what the target has read, and does not draft in the first step
  // A text of one token, where more is looked up than a model drafts.
  exact_case c{{1, 41, flavour::smooth}, {1, 41, flavour::smooth}, {{{0, 0}, ask(14)}}};
  const auto far = [&](const auto& by) {
    return exact_ensemble(
               c,
               [&](auto& m) {
                 return drafter::ensemble{drafter::lookup<6>{1}, by(greedy_chain{}, policy)(m)};
               })
        .steps;
  };
  CHECK(far(by_model) == doctest::Approx(2.0));
  CHECK(far(by_eagle) == doctest::Approx(2.0));
}

/// The first step after a text: what is accepted, and what was drafted.
template <class Make>
step_law first_step(const exact_case& c, const Make& make, double* drafted) {
  forking_source source;
  const selector::full all{c.target.vocab};
  grid_and_eagle models(c, all.layout());
  decoder d{models.target,          make(models),      all,   plain_sampler{},
            verifier::point_mass{}, decoder_options{}, source};
  const step_law step = enumerate_step(d, source, c.requests[0]);
  *drafted = static_cast<double>(d.stats().drafted) / static_cast<double>(d.stats().steps);
  return step;
}

TEST_CASE("a merged tree accepts what any of its drafters has drafted, each token once") {
  int better = 0;
  int shared = 0;
  for (const flavour p : {flavour::smooth, flavour::sharp, flavour::odd}) {
    exact_case c = repeating(p, flavour::smooth, 5);
    const auto model = by_model(deep_tree{}, policy);
    double of_copies = 0.0, of_model = 0.0, of_both = 0.0, of_twice = 0.0;
    const double copies = first_step(
                              c, [](auto&) { return lookup{1}; }, &of_copies)
                              .accepted;
    const double own = first_step(c, model, &of_model).accepted;
    const double both = first_step(c, copies_and_model, &of_both).accepted;
    const double twice = first_step(
                             c,
                             [](auto&) {
                               return drafter::ensemble{lookup{1}, lookup{1}};
                             },
                             &of_twice)
                             .accepted;
    CHECK(both >= std::max(copies, own) - law_tolerance);
    CHECK(of_both <= of_copies + of_model);
    CHECK(twice == doctest::Approx(copies));
    CHECK(of_twice == of_copies);
    better += both > std::max(copies, own) + 1e-6 ? 1 : 0;
    shared += of_both < of_copies + of_model ? 1 : 0;
  }
  CHECK(better > 0);
  CHECK(shared > 0);
}

TEST_CASE("where there is no room for all, the first drafter has its tree") {
  const exact_case c = repeating(flavour::smooth, flavour::smooth, 5);
  double of_copies = 0.0, of_both = 0.0, of_less = 0.0;
  const double copies = first_step(
                            c, [](auto&) { return lookup{1}; }, &of_copies)
                            .accepted;
  const double both = first_step(c, copies_and_model, &of_both).accepted;
  const double less = first_step(
                          c,
                          [](auto& m) {
                            return drafter::ensemble{drafter::nodes<7>{}, lookup{1},
                                                     by_model(deep_tree{}, policy)(m)};
                          },
                          &of_less)
                          .accepted;
  CHECK(of_copies == 3.0);
  CHECK(of_less == 6.0);
  CHECK(of_both > of_less);
  CHECK(less >= copies - law_tolerance);
  CHECK(both > less);
}

/// An ensemble that says of its tree what only its drafter's own tree was.
template <class... D>
struct as_if_drawn : drafter::ensemble<7, D...> {
  using drafter::ensemble<7, D...>::ensemble;
  static constexpr child_law children = child_law::independent;
};
/// Has a law, but drafts nothing.
struct no_drafts : drafter::none {
  static constexpr child_law children = child_law::ranked;
};

/// Two draws from one law, of which one is left if they are the same: taken for all there were, the
/// law of the text is another one.
TEST_CASE("negative control: a merged tree by the rule for draws") {
  using two_draws = tree::sampled<2>;
  const exact_case c = repeating(flavour::smooth, flavour::sharp, 2);
  const tree_case one_step{c.target, c.draft, c.requests[0], {}};
  const selector::full all{3};
  toy_draft<> draft{c.draft, all.layout()};
  using model = drafter::autoregressive<toy_draft<>&, two_draws>;
  CHECK(drafted_gap(one_step, model{draft}, all, plain_sampler{}, verifier::rejection{}) <=
        law_tolerance);
  CHECK(drafted_gap(one_step, as_if_drawn<model, no_drafts>{model{draft}, no_drafts{}}, all,
                    plain_sampler{}, verifier::rejection{}) > 1e-3);
  CHECK(drafted_gap(one_step, drafter::ensemble{model{draft}, no_drafts{}}, all, plain_sampler{},
                    verifier::point_mass{}) <= law_tolerance);
}

TEST_CASE("drafters of states of two sizes do not go into one tree") {
  const exact_case c = repeating(flavour::smooth, flavour::smooth);
  const selector::full all{3};
  grid_and_eagle models(c, all.layout());
  struct wide_heads : toy_heads<> {
    using toy_heads<>::toy_heads;
    std::int32_t hidden_size() const { return toy_heads<>::hidden_size() + 1; }
  };
  wide_heads wide{c.draft, 3, all.layout()};
  CHECK_THROWS_AS((decoder{models.target,
                           drafter::ensemble{drafter::heads{models.heads, fixed_tree{}},
                                             drafter::heads{wide, fixed_tree{}}},
                           all, plain_sampler{}, verifier::point_mass{}}),
                  std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// The exact joint law of the drafters that grow trees, with every shape, over every kind of
// shortlist, by every rule that accepts what they draft; and what they leave in their caches.

#include <cstdint>
#include <vector>

#include <hunch/drafter/heads.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include <hunch/length/one_of.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../support/drafter_makers.hpp"
#include "../support/taught_meter.hpp"
#include "../support/toy_heads.hpp"
#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test {
namespace {

using wide_tree = tree::dynamic<3, 2, 5>;

using any_selector = selector::any<double>;

/// By a draft model of its own cache, and by heads.
enum class by { model, heads };

template <by By, class Tree, class V, class S = plain_sampler>
enumeration exact_tree(exact_case c, any_selector selector, V verifier, S sampler = {}) {
  forking_source source;
  c.options.max_batch = batch_of(c);
  if constexpr (By == by::model) {
    toy_target<> target{c.target};
    toy_draft<> draft{c.draft, selector.layout()};
    decoder d{
        target, drafter::autoregressive{draft, Tree{}}, selector, sampler, verifier, c.options,
        source};
    const enumeration found = check_law(d, source, c);
    target.cache().check();
    draft.cache().check();
    return found;
  } else {
    toy_hidden_target<> target{c.target};
    toy_heads<> model{c.draft, 3, selector.layout()};
    decoder d{target, drafter::heads{model, Tree{}}, selector, sampler, verifier, c.options,
              source};
    const enumeration found = check_law(d, source, c);
    target.cache().check();
    return found;
  }
}

template <by By>
std::int64_t over_shapes(const exact_case& c, const any_selector& selector) {
  const verifier::rejection tests;
  const verifier::point_mass draws;
  std::int64_t tapes = 0;
  tapes += exact_tree<By, tree::sampled<2, 1>>(c, selector, tests).tapes;
  tapes += exact_tree<By, tree::sampled<3>>(c, selector, tests).tapes;
  tapes += exact_tree<By, tree::sampled<2, 1>>(c, selector, draws).tapes;
  tapes += exact_tree<By, fixed_tree>(c, selector, draws).tapes;
  tapes += exact_tree<By, wide_tree>(c, selector, draws).tapes;
  tapes += exact_tree<By, deep_tree>(c, selector, draws).tapes;
  return tapes;
}

TEST_CASE("trees of every shape, over every kind of shortlist") {
  std::int64_t tapes = 0;
  for_each_selector(4, [&](const auto& selector) {
    const exact_case c = case_of(flavour::smooth, flavour::sharp, 4, 3);
    tapes += over_shapes<by::model>(c, any_selector(selector));
    tapes += over_shapes<by::heads>(c, any_selector(selector));
  });
  MESSAGE(tapes << " tapes");
}

TEST_CASE("trees of every shape, for every pair of kinds of law") {
  std::int64_t tapes = 0;
  for (const flavour p : {flavour::smooth, flavour::one_hot, flavour::masked, flavour::tied,
                          flavour::denormal, flavour::odd}) {
    for (const flavour q : {flavour::one_hot, flavour::masked, flavour::uniform, flavour::even}) {
      for (const float temperature : {1.0f, 0.6f, 0.0f}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(static_cast<int>(q));
        const exact_case c = case_of(p, q, 3, 4, temperature);
        tapes += over_shapes<by::model>(c, any_selector(selector::full{3}));
        tapes += over_shapes<by::heads>(c, any_selector(selector::full{3}));
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("trees in a batch, with stops, in any draft length, at the end of caches") {
  const toy_world world{3, 61, flavour::smooth};
  const toy_world other{3, 62, flavour::smooth};
  std::vector<request> two{{{1}, ask(3)}, {{2, 0}, ask(2, 0.6f), 1}};
  two[0].options.seed = 1;
  two[1].options.seed = 2;
  two[1].options.stop_tokens = {1};
  for (std::int32_t length = 0; length <= 3; ++length) {
    exact_case c{world, other, two};
    c.options.draft_length = length;
    exact_tree<by::model, tree::sampled<2, 1>>(c, any_selector(selector::full{3}),
                                               verifier::rejection{});
    exact_tree<by::model, deep_tree>(c, any_selector(selector::full{3}), verifier::point_mass{});
    exact_tree<by::heads, deep_tree>(c, any_selector(selector::full{3}), verifier::point_mass{});
  }
}

TEST_CASE("greedy text is that of plain decoding, whatever is drafted") {
  for (const flavour q : {flavour::smooth, flavour::tied, flavour::masked}) {
    const exact_case c = case_of(flavour::smooth, q, 5, 9, 0.0f);
    const auto greedy = [&](auto tree) {
      using shape = decltype(tree);
      CHECK(exact_tree<by::model, shape>(c, any_selector(selector::full{5}), verifier::greedy{},
                                         sampler::greedy{})
                .tapes == 1);
      CHECK(exact_tree<by::heads, shape>(c, any_selector(selector::full{5}), verifier::greedy{},
                                         sampler::greedy{})
                .tapes == 1);
    };
    greedy(fixed_tree{});
    greedy(deep_tree{});
    greedy(tree::sampled<2, 1>{});
  }
}

TEST_CASE("a draft like the target's is accepted to its end") {
  const auto steps = [](auto tree, auto verifier, float temperature) {
    const exact_case c{{4, 31, flavour::smooth}, {4, 31, flavour::smooth}, {{{0, 1}, ask(6)}}};
    exact_case at = c;
    at.requests[0].options.temperature = temperature;
    return exact_tree<by::model, decltype(tree)>(at, any_selector(selector::full{4}), verifier)
        .steps;
  };
  CHECK(steps(tree::sampled<2, 1>{}, verifier::rejection{}, 0.0f) == doctest::Approx(2.0));
  CHECK(steps(deep_tree{}, verifier::point_mass{}, 0.0f) < 3.0);
  // All children of each node: whatever the target draws is there.
  CHECK(steps(tree::dynamic<4, 2, 21>{}, verifier::point_mass{}, 1.0f) == doctest::Approx(2.0));
  // Negative control: a draft of another world is not.
  const exact_case c{{4, 31, flavour::smooth}, {4, 32, flavour::smooth}, {{{0, 1}, ask(4)}}};
  CHECK(exact_tree<by::model, tree::sampled<2, 1>>(c, any_selector(selector::full{4}),
                                                   verifier::rejection{})
            .steps > 2.1);
}

using any_policy = length::one_of<length::fixed, length::entropy, length::confidence, length::ewma,
                                  length::cost, length::metered>;

/// Tokens that a policy drafts in a step, over a draft that is as good as it can be, and over one
/// that never is.
struct drafted_tokens {
  double good;
  double bad;
  bool operator==(const drafted_tokens&) const = default;
};
template <class Policy>
drafted_tokens drafted_by(Policy policy) {
  const auto over = [&](flavour q, std::uint64_t salt) {
    toy_target<float> target{{6, 41, flavour::sharp}};
    toy_draft<float> draft{{6, salt, q}};
    decoder d{target, drafter::autoregressive{draft, tree::chain<6>{}, policy}, selector::full{6},
              plain_sampler{}, verifier::rejection{}};
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      auto options = ask(120);
      options.seed = seed;
      d.add(text{1, 2}, options);
      while (d.running() > 0) { d.step(); }
    }
    return static_cast<double>(d.stats().drafted) / static_cast<double>(d.stats().steps);
  };
  return {over(flavour::sharp, 41), over(flavour::uniform, 7)};
}

TEST_CASE("policies do decide") {
  static constexpr double curve[] = {1.0, 1.1, 1.3, 1.6, 1.9, 2.2, 2.5};
  const auto decides = [&](const any_policy& policy) {
    const drafted_tokens found = drafted_by(policy);
    CAPTURE(found.good);
    CAPTURE(found.bad);
    CHECK(found.good > found.bad + 0.5);
    CHECK(found.good > 2.0);
    return found;
  };
  // What is one of several decides as it does by itself.
  const length::entropy unsure{.lambda = 0.6};
  CHECK(decides(unsure) == drafted_by(unsure));
  decides(length::confidence{});
  decides(length::ewma{});
  decides(length::cost{.draft = 0.1, .rows = curve});
  // A meter's prices decide: those of a clock as if somebody had named them, and high ones.
  length::meter meter(6);
  teach(meter, 0.1, 0.1);
  CHECK(decides(length::metered{meter}) == drafted_by(any_policy{meter.policy()}));
  length::meter dear(6);
  teach(dear, 2.0, 0.5);
  length::cost refused = dear.prices(1);
  refused.share = 0.0;
  CHECK(drafted_by(any_policy{refused}) == drafted_tokens{0.0, 0.0});
  // Negative control: one that does not look.
  const drafted_tokens blind = drafted_by(any_policy{length::fixed{3}});
  CHECK(blind.good == doctest::Approx(blind.bad).epsilon(0.05));
}

/// Runs a request to its end and calls use(committed) after every step.
template <class Decoder, class Use>
void follow(Decoder& d, const text& prompt, const generation_options& options, Use&& use) {
  text committed = prompt;
  d.add(prompt, options);
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      committed.insert(committed.end(), e.tokens.begin(), e.tokens.end());
    }
    if (d.running() > 0) { use(committed); }
  }
}

TEST_CASE("a draft model's cache is that of one that read the text") {
  const toy_world world{6, 41, flavour::sharp};
  const auto check = [&](auto tree, auto verifier, std::int32_t capacity) {
    toy_target<float> target{world};
    toy_draft<float> draft{{6, 41, flavour::sharp}, capacity};
    decoder d{target,   drafter::autoregressive{draft, tree}, selector::full{6}, plain_sampler{},
              verifier, decoder_options{.chunk = 4}};
    std::int64_t kept = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      auto options = ask(24, 0.8f);
      options.seed = seed;
      follow(d, {1, 2, 3, 4, 5, 0, 1}, options, [&](const text& committed) {
        const text& cached = draft.cache().tokens(0);
        REQUIRE(cached.size() < committed.size());
        // A replay of the same tokens, one by one.
        toy_cache replay(6, no_limit);
        std::uint64_t hash = 0;
        for (std::size_t i = 0; i < cached.size(); ++i) {
          REQUIRE(cached[i] == committed[i]);
          hash = extend(hash, committed[i]);
        }
        CHECK(draft.cache().text(0) == hash);
        kept += static_cast<std::int64_t>(cached.size());
      });
    }
    draft.cache().check();
    CHECK(d.stats().accepted > 0);
    return kept;
  };
  CHECK(check(tree::sampled<2, 2>{}, verifier::rejection{}, no_limit) > 0);
  CHECK(check(fixed_tree{}, verifier::point_mass{}, no_limit) > 0);
  CHECK(check(deep_tree{}, verifier::point_mass{}, no_limit) > 0);
  // A context shorter than the text: drafts end, and the text goes on.
  CHECK(check(deep_tree{}, verifier::point_mass{}, 12) > 0);
  CHECK(check(tree::sampled<2, 2>{}, verifier::rejection{}, 12) > 0);
}

TEST_CASE("heads read what the target knew before the root, and never anything older") {
  toy_hidden_target<float> target{{5, 43, flavour::sharp}};
  toy_heads<float> model{{5, 43, flavour::sharp}, 3, vocab_layout::identity(5)};
  decoder d{target, drafter::heads{model, deep_tree{}}, selector::full{5}, plain_sampler{},
            verifier::point_mass{}};
  std::size_t asked = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto options = ask(20);
    options.seed = seed;
    text before{1, 2, 3};
    asked = model.seen.size();
    follow(d, before, options, [&](const text& committed) {
      if (model.seen.size() > asked) {
        // What the heads saw at the beginning of this step is the text without its root.
        const auto& seen = model.seen.back();
        CHECK(seen.root == before.back());
        CHECK(seen.text == as_hidden(hash_of(std::span(before.data(), before.size() - 1))));
        asked = model.seen.size();
      }
      before = committed;
    });
  }
  CHECK(asked > 10);
  CHECK(d.stats().drafted > 0);
  // Another size of hidden states is refused, with both numbers.
  target.hidden_width = toy_hidden_size - 1;
  d.add(text{1, 2}, ask(20));
  CHECK_THROWS_WITH_AS(d.step(),
                       "hunch: the target's states have 1 numbers, and the drafter reads 2",
                       std::invalid_argument);
}

TEST_CASE("what does not fit is refused at construction") {
  toy_hidden_target<float> target{{5, 43, flavour::sharp}};
  const auto with = [&](auto& model, auto selector) {
    decoder d{target, drafter::heads{model, deep_tree{}}, selector, plain_sampler{},
              verifier::point_mass{}};
  };
  toy_heads<float> two{{5, 43, flavour::sharp}, 2, vocab_layout::identity(5)};
  CHECK_THROWS_WITH_AS(with(two, selector::full{5}),
                       "hunch::drafter::heads: 2 heads are too few for a tree of depth 3",
                       std::invalid_argument);
  toy_heads<float> four{{4, 43, flavour::sharp}, 3, vocab_layout::identity(4)};
  CHECK_THROWS_AS(with(four, selector::full{4}), std::invalid_argument);
  toy_heads<float> other{{5, 43, flavour::sharp}, 3, shuffled_layout(5, 5)};
  CHECK_THROWS_AS(with(other, selector::full{5}), std::invalid_argument);
}

}  // namespace
}  // namespace hunch::test

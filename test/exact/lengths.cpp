// SPDX-License-Identifier: Apache-2.0

// The exact joint law of drafts whose length a policy decides from what was drawn; and that the law
// is another one if a policy is let decide what is kept.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/distribution/entropy.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/verifier/block.hpp>
#include "exact.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t longest = 3;

/// What becomes of a token after which the policy stops.
enum class at_the_stop { kept, dropped };

/// Drafts chains from a toy world, level by level, as long as a policy goes on.
template <LengthPolicy L>
struct stopping_drafter {
  static constexpr std::int32_t max_nodes = longest + 1;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = true;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;

  toy_world world;
  L policy;
  at_the_stop last = at_the_stop::kept;

  template <class Real, class Executor>
  struct state {
    state(const stopping_drafter&, Executor& executor, const drafter_setup& setup)
        : layout(setup.layout), lengths(executor, setup.max_batch) {}
    const vocab_layout* layout;
    drafter::length_slots<L, Executor> lengths;
  };

  void check(const drafter_setup&) const {}

  template <class State, class Drafts, class Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector&, const S& sampler, const Draw& draw, Executor&) const {
    const drafter::slot_lengths<L> lengths = s.lengths.with(policy);
    for (std::int32_t k = 0; k < slots; ++k) {
      const draft_context& c = contexts[k];
      const std::int32_t limit = lengths.begin(k, std::min(c.max_depth, longest));
      length_evidence evidence;
      for (bool more = limit > 0; more;) {
        const std::int32_t parent = lengths.levels(k);
        level(s, k, c, drafts, sampler, draw, parent, evidence);
        if (evidence.probability == 0.0) { break; }
        const bool may = lengths.drew(k);
        more = may && lengths.continues(k, evidence);
        if (may && !more && last == at_the_stop::dropped) { break; }
        drafts.grow(k, parent + 1, parent);
      }
    }
  }

  template <class State, class E, class Executor>
  void observe(State& s, const draft_outcomes& outcomes, E&, Executor& executor) noexcept {
    executor.launch(outcomes.slots, drafter::observe_lengths{s.lengths.with(policy), outcomes});
  }
  template <class State, class Executor>
  void release(State& s, std::int32_t slot, Executor&) noexcept {
    s.lengths.with(policy).release(slot);
  }

 private:
  /// Draws the token of node `node` + 1; its probability is 0 if there is none.
  template <class State, class Drafts, class S, class Draw>
  void level(const State& s, std::int32_t k, const draft_context& c, Drafts& drafts,
             const S& sampler, const Draw& draw, std::int32_t node,
             length_evidence& evidence) const {
    using real = typename Drafts::real;
    const auto tree = drafts.tree(k);
    row_range* const everything = drafts.ranges(k, node);
    *everything = {0, world.vocab};
    tree.lists[node] = s.layout->list(everything, 1);
    std::vector<token> whole(c.committed, c.committed + c.length);
    whole.insert(whole.end(), tree.tokens + 1, tree.tokens + 1 + node);
    const std::vector<double> logits = world.logits(hash_of(whole));
    real* const row = drafts.logits(k, node);
    std::ranges::copy(logits, row);
    team::serial team;
    tree.laws[node] = sampler(team, row_view<real>{row, world.vocab}, c.parameters,
                              drafts.history(k, c, node, tree.lists + node));
    evidence.probability = 0.0;
    if (tree.laws[node].status != status::ok) { return; }
    const std::int32_t at =
        draw(team,
             {c.seed, static_cast<std::uint32_t>(c.length), static_cast<std::uint32_t>(node), 0,
              purpose::draft},
             static_cast<std::uint32_t>(c.length + node), tree.laws[node], tree.lists[node]);
    tree.drawn_at[node + 1] = at;
    tree.tokens[node + 1] = tree.lists[node].token_at(at);
    evidence.probability = tree.laws[node].prob(at);
    evidence.reach *= evidence.probability;
    evidence.entropy = L::needs_entropy ? kernel::entropy(team, tree.laws[node]) : 0.0;
    evidence.rows = node + 2;
  }
};

/// How far the law of the texts is from that of plain decoding.
template <class L, class V>
double gap(const exact_case& c, L policy, V verifier, at_the_stop last = at_the_stop::kept) {
  forking_source source;
  toy_target<> target{c.target};
  auto options = c.options;
  options.max_batch = batch_of(c);
  decoder d{target,
            stopping_drafter<L>{c.draft, policy, last},
            selector::full{c.target.vocab},
            plain_sampler{},
            verifier,
            options,
            source};
  const enumeration found = enumerate(d, source, c.requests);
  return distance(found.law, joint_law(c.target, c.requests));
}

length::cost learning() {
  length::cost cost;
  cost.draft = 0.4;
  cost.trust = 1.0;
  cost.decay = 0.5;
  cost.share = 10.0;
  return cost;
}

TEST_CASE("a policy that decides whether to draw again leaves the law what it is") {
  for (const flavour q : {flavour::smooth, flavour::sharp, flavour::masked, flavour::one_hot}) {
    const exact_case c = case_of(flavour::smooth, q, 3, 5);
    const auto check = [&](auto policy) {
      CHECK(gap(c, policy, verifier::rejection{}) <= law_tolerance);
      CHECK(gap(c, policy, verifier::block{}) <= law_tolerance);
    };
    check(length::fixed{});
    check(length::confidence{0.4});
    check(length::entropy{0.4, 0.3});
    check(length::ewma{2, 0.5});
    check(learning());
  }
}

TEST_CASE("likewise in a batch") {
  exact_case c{{2, 1, flavour::smooth},
               {2, 2, flavour::smooth},
               {{{1, 0}, ask(4)}, {{0, 1, 1}, ask(3, 0.7f), 1}}};
  c.requests[0].options.seed = 5;
  CHECK(gap(c, learning(), verifier::rejection{}) <= law_tolerance);
  CHECK(gap(c, length::confidence{0.5}, verifier::rejection{}) <= law_tolerance);
}

TEST_CASE("a policy that decides whether to keep what was drawn is seen to bias the law") {
  const exact_case c = case_of(flavour::smooth, flavour::smooth, 3, 4);
  const double dropped =
      gap(c, length::confidence{0.4}, verifier::rejection{}, at_the_stop::dropped);
  MESSAGE("a text's probability is off by up to " << dropped);
  CHECK(dropped > 1e-3);
  // Entropies do not depend on which token was drawn, so that nothing is lost.
  CHECK(gap(c, length::entropy{0.4, 0.3}, verifier::rejection{}, at_the_stop::dropped) <=
        law_tolerance);
}

}  // namespace
}  // namespace hunch::test

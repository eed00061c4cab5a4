// SPDX-License-Identifier: Apache-2.0

// What length policies decide, and what `length::cost` is worth: drafts over texts whose tokens are
// accepted at random, by several processes and at several costs, beside the best fixed length.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/one_of.hpp>
#include <hunch/length/planner.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

constexpr std::int32_t max_depth = 10;

/// Whether a draft of the token at a position would be accepted if those before it were, and how
/// probable it would be under the law that it is drawn from.
struct position {
  bool accepted = false;
  double probability = 1.0;
};
using process = std::vector<position>;

struct named_process {
  std::string name;
  process text;
};

constexpr std::int32_t text_length = 40000;

/// \param acceptance at position i. \param probability of a token there.
template <class Acceptance, class Probability>
process make(std::uint64_t seed, Acceptance acceptance, Probability probability) {
  dice random{seed};
  process out;
  for (std::int32_t i = 0; i < text_length; ++i) {
    const double alpha = acceptance(i, random);
    const double p = probability(alpha, random);
    out.push_back({random.unit() < alpha, p});
  }
  return out;
}

const auto says_nothing = [](double, dice& random) { return random.unit(); };
const auto says_much = [](double alpha, dice& random) {
  return std::clamp(alpha + 0.2 * (random.unit() - 0.5), 0.0, 1.0);
};

/// Texts with stretches of two kinds.
struct two_states {
  double easy, hard, stay;
  bool is_easy = true;
  double operator()(std::int32_t, dice& random) {
    if (random.unit() > stay) { is_easy = !is_easy; }
    return is_easy ? easy : hard;
  }
};

std::vector<named_process> processes() {
  std::vector<named_process> out;
  for (const double alpha : {0.2, 0.5, 0.7, 0.85, 0.95}) {
    out.push_back({"constant " + std::to_string(alpha),
                   make(
                       1, [=](std::int32_t, dice&) { return alpha; }, says_nothing)});
  }
  out.push_back({"changing", make(
                                 2,
                                 [](std::int32_t i, dice&) {
                                   constexpr double of[] = {0.9, 0.4, 0.75, 0.2};
                                   return of[i / 2500 % 4];
                                 },
                                 says_nothing)});
  out.push_back({"two states", make(3, two_states{0.9, 0.3, 0.9}, says_nothing)});
  out.push_back({"two slow states", make(4, two_states{0.95, 0.1, 0.99}, says_nothing)});
  out.push_back({"two states that show", make(5, two_states{0.95, 0.3, 0.8}, says_much)});
  out.push_back(
      {"every token its own",
       make(
           6, [](std::int32_t, dice& random) { return std::sqrt(random.unit()); }, says_much)});
  return out;
}

struct expenses {
  std::string name;
  double draft;
  std::vector<double> rows;
};

std::vector<expenses> all_expenses() {
  const auto line = [](double slope) {
    std::vector<double> rows;
    for (std::int32_t n = 1; n <= max_depth + 1; ++n) { rows.push_back(1.0 + slope * (n - 1)); }
    return rows;
  };
  std::vector<double> jump = line(0.01);
  for (std::size_t n = 4; n < jump.size(); ++n) { jump[n] += 0.5; }
  return {{"a GPU", 0.04, line(0.01)},
          {"a processor", 0.15, line(0.12)},
          {"a dear draft", 0.4, line(0.05)},
          {"rows that jump", 0.05, jump}};
}

/// Tokens per cost of a policy over a text.
template <LengthPolicy L>
double tokens_per_cost(const L& policy, const process& text, const expenses& e) {
  typename L::memory memory;
  double cost = 0.0;
  double tokens = 0.0;
  for (std::size_t at = 0; at + max_depth < text.size();) {
    const std::int32_t limit = policy.begin(memory, max_depth);
    if (limit < 0 || limit > max_depth) { FAIL("a limit out of range"); }
    std::int32_t drafted = 0;
    double reach = 1.0;
    while (drafted < limit) {
      const double p = text[at + static_cast<std::size_t>(drafted)].probability;
      reach *= p;
      ++drafted;
      const length_evidence evidence{drafted, p, reach, 0.0, drafted + 1};
      if (drafted < limit && !policy.continues(memory, evidence)) { break; }
    }
    std::int32_t accepted = 0;
    while (accepted < drafted && text[at + static_cast<std::size_t>(accepted)].accepted) {
      ++accepted;
    }
    policy.observe(memory, drafted, accepted);
    cost += planner::row_costs{e.rows}.at(drafted + 1) + drafted * e.draft;
    tokens += accepted + 1;
    at += static_cast<std::size_t>(accepted) + 1;
  }
  return tokens / cost;
}

double best_fixed(const process& text, const expenses& e) {
  double best = 0.0;
  for (std::int32_t levels = 0; levels <= max_depth; ++levels) {
    best = std::max(best, tokens_per_cost(length::fixed{levels}, text, e));
  }
  return best;
}

length::cost at_cost(const expenses& e, bool calibrated) {
  length::cost policy;
  policy.draft = e.draft;
  policy.rows = e.rows;
  policy.calibrated = calibrated;
  return policy;
}

/// The least share of the best fixed length over processes and costs, if the policy takes the costs
/// for `believed(costs)`.
template <class Believed>
double least_share(bool calibrated, Believed believed) {
  double least = 2.0;
  for (const named_process& p : processes()) {
    for (const expenses& e : all_expenses()) {
      const expenses wrong = believed(e);
      least = std::min(
          least, tokens_per_cost(at_cost(wrong, calibrated), p.text, e) / best_fixed(p.text, e));
    }
  }
  return least;
}

TEST_CASE("with measured costs: at least 0.97 of the best fixed length, everywhere") {
  for (const named_process& p : processes()) {
    for (const expenses& e : all_expenses()) {
      const double best = best_fixed(p.text, e);
      for (const bool calibrated : {false, true}) {
        CAPTURE(p.name);
        CAPTURE(e.name);
        CAPTURE(calibrated);
        CHECK(tokens_per_cost(at_cost(e, calibrated), p.text, e) >= 0.97 * best);
      }
    }
  }
}

TEST_CASE("with wrong costs it is worse: these processes tell costs apart") {
  for (const bool calibrated : {false, true}) {
    const auto share = [&](double draft, double slope) {
      return least_share(calibrated, [=](expenses e) {
        e.draft *= draft;
        for (double& r : e.rows) { r = 1.0 + slope * (r - 1.0); }
        return e;
      });
    };
    CHECK(share(1.0, 1.0) >= 0.97);
    CHECK(share(0.0, 0.0) < 0.9);
    CHECK(share(0.3, 1.0) < 0.97);
    CHECK(share(5.0, 5.0) < 0.9);
  }
}

TEST_CASE("what shows in the probabilities is worth more than any fixed length") {
  for (const named_process& p : processes()) {
    if (p.name != "two states that show") { continue; }
    const expenses processor = all_expenses()[1];
    const double best = best_fixed(p.text, processor);
    CHECK(tokens_per_cost(at_cost(processor, true), p.text, processor) > 1.1 * best);
    CHECK(tokens_per_cost(at_cost(processor, false), p.text, processor) < 1.05 * best);
  }
}

TEST_CASE(
    "at the beginning of a text, what a drafter thinks of itself is scaled by what is known") {
  const auto continues = [](double expected, double probability) {
    length::cost policy{.draft = 0.2, .expected = expected};
    length::cost::memory memory;
    policy.begin(memory, max_depth);
    return policy.continues(memory, {1, probability, probability, 0.0, 2});
  };
  // An ordinary drafter stops after a token that it doubts, and not after one that it does not.
  CHECK(continues(0.6, 0.95));
  CHECK_FALSE(continues(0.6, 0.2));
  // One that is almost always right goes on.
  CHECK(continues(0.95, 0.2));
}

TEST_CASE("nothing is drafted where nothing pays, but for a try now and then") {
  // A draft of one level loses what it costs: nothing is accepted.
  for (const double draft : {2.0, 0.5}) {
    CAPTURE(draft);
    const length::cost policy = at_cost({"", draft, {}}, true);
    length::cost::memory memory;
    constexpr std::int32_t steps = 20000;
    std::vector<std::int32_t> waits;
    std::int32_t last = 0;
    for (std::int32_t step = 0; step < steps; ++step) {
      const std::int32_t limit = policy.begin(memory, max_depth);
      if (step > 100) { REQUIRE(limit <= 1); }
      if (limit == 1) { waits.push_back(step - std::exchange(last, step)); }
      policy.observe(memory, limit, 0);
    }
    // As much as its share of the time pays for, and without a period.
    const double lost = draft * static_cast<double>(waits.size()) / steps;
    CHECK(lost > 0.6 * policy.share);
    CHECK(lost < 1.2 * policy.share);
    std::ranges::sort(waits);
    const std::size_t tenth = waits.size() / 10;
    CHECK(waits[waits.size() - 1 - tenth] > 1.5 * waits[tenth]);
  }
  length::cost none = at_cost({"", 0.5, {}}, true);
  none.share = 0.0;
  length::cost::memory memory;
  std::int32_t drafts = 0;
  for (std::int32_t step = 0; step < 5000; ++step) {
    const std::int32_t limit = none.begin(memory, max_depth);
    drafts += limit > 0 ? 1 : 0;
    none.observe(memory, limit, 0);
  }
  CHECK(drafts < 10);
}

TEST_CASE("a step that is repeated before it is observed begins anew") {
  const length::cost policy = at_cost(all_expenses()[0], true);
  length::cost::memory memory;
  for (std::int32_t step = 0; step < 50; ++step) {
    policy.begin(memory, max_depth);
    policy.continues(memory, {1, 0.9, 0.9, 0.0, 2});
    policy.observe(memory, 1, 1);
  }
  length::cost::memory again = memory;
  policy.begin(memory, max_depth);
  const bool first = policy.continues(memory, {1, 0.5, 0.5, 0.0, 2});
  policy.begin(again, max_depth);
  policy.continues(again, {1, 0.01, 0.01, 0.0, 2});
  policy.continues(again, {2, 0.02, 0.0002, 0.0, 3});
  policy.begin(again, max_depth);
  CHECK(policy.continues(again, {1, 0.5, 0.5, 0.0, 2}) == first);
  CHECK(again.survival == memory.survival);
  CHECK(again.known == memory.known);
}

TEST_CASE("the other policies, by hand") {
  length::fixed::memory none;
  CHECK(length::fixed{}.begin(none, 7) == 7);
  CHECK(length::fixed{3}.begin(none, 7) == 3);
  CHECK(length::fixed{-1}.begin(none, 7) == 0);
  CHECK(length::fixed{3}.continues(none, {1, 0.0, 0.0, 9.0, 2}));

  // 1 - sqrt(0.2 H) = 0.4 for H = 1.8.
  length::entropy::memory unused;
  CHECK(length::entropy{}.begin(unused, 7) == 7);
  CHECK(length::entropy{}.continues(unused, {1, 0.0, 0.0, 1.79, 2}));
  CHECK_FALSE(length::entropy{}.continues(unused, {1, 1.0, 1.0, 1.81, 2}));
  CHECK(length::entropy{0.1, 0.4}.continues(unused, {1, 1.0, 1.0, 2.0, 2}));

  length::confidence::memory nothing;
  CHECK(length::confidence{}.begin(nothing, 7) == 7);
  CHECK(length::confidence{}.continues(nothing, {1, 0.4, 0.4, 9.0, 2}));
  CHECK_FALSE(length::confidence{}.continues(nothing, {1, 0.39, 0.39, 0.0, 2}));
}

TEST_CASE("levels of a tree cost as many rows as they have") {
  length::cost policy;
  const std::vector<double> rows{1.0, 1.2};
  policy.rows = rows;
  const auto plans = [&](std::int32_t width, std::int32_t most = max_depth * 4 + 1) {
    length::cost::memory memory;
    for (std::int32_t step = 0; step < 3; ++step) {
      policy.begin(memory, max_depth);
      policy.continues(memory, {1, 0.7, 0.7, 0.0, 1 + width, most});
      policy.observe(memory, 1, 1);
    }
    policy.calibrated = false;  // the length that is best if every step had it
    const std::int32_t best = policy.begin(memory, max_depth);
    policy.calibrated = true;
    return best;
  };
  CHECK(plans(1) > plans(2));
  CHECK(plans(2) > plans(4));
  // Where a tree keeps only so many of them, further levels cost nothing but their drafting.
  CHECK(plans(4, 5) > plans(4));
  CHECK(plans(4, 5) == max_depth);
}

TEST_CASE("within a step, too, rows that a tree does not keep cost nothing") {
  length::cost policy;
  const std::vector<double> rows{1.0, 1.2, 1.4, 1.6, 1.8, 5.0, 9.0};
  policy.rows = rows;
  policy.expected = 0.5;
  length::cost::memory memory;
  policy.begin(memory, max_depth);
  CHECK_FALSE(policy.continues(memory, {1, 0.5, 0.5, 0.0, 5, 9}));
  policy.begin(memory, max_depth);
  CHECK(policy.continues(memory, {1, 0.5, 0.5, 0.0, 5, 5}));
}

TEST_CASE("a length by means alone keeps to what is asked for at least") {
  // Nothing pays: rows are dear.
  const std::vector<double> rows{1.0, 3.0};
  length::cost policy{.draft = 0.5, .rows = rows, .share = 0.0, .at_least = 2, .calibrated = false};
  length::cost::memory memory;
  CHECK(policy.begin(memory, max_depth) == 2);
  CHECK(policy.begin(memory, 1) == 1);
  // One level pays, and two are asked for.
  const std::vector<double> jump{1.0, 1.1, 9.0};
  policy.rows = jump;
  CHECK(policy.begin(memory, max_depth) == 2);
  policy.at_least = 0;
  CHECK(policy.begin(memory, max_depth) == 1);
}

TEST_CASE("where sequences share the passes of a drafter only copies are tried") {
  const std::vector<double> rows{1.0, 3.0};
  length::cost policy{.draft = 0.5, .rows = rows};
  const auto tries = [&](bool ahead) {
    length::cost::memory memory;
    std::int32_t count = 0;
    for (std::int32_t step = 0; step < 2000; ++step) {
      // Whether it copies is known once it was asked to draft.
      policy.at_least = step == 0 ? 1 : 0;
      length_evidence evidence{0, 0.1, 0.1, 0.0, 1};
      evidence.ahead = ahead;
      const std::int32_t limit = policy.begin(memory, 4);
      const bool drafts = limit > 0 && (!ahead || policy.continues(memory, evidence));
      policy.observe(memory, drafts ? 1 : 0, 0);
      count += drafts ? 1 : 0;
    }
    return count;
  };
  CHECK(tries(false) > 3);
  CHECK(tries(true) > 3);
  policy.shares_passes = true;
  CHECK(tries(false) == 1);
  CHECK(tries(true) > 3);
}

TEST_CASE("one of several policies does what that one does") {
  using any = length::one_of<length::fixed, length::entropy, length::confidence, length::ewma,
                             length::cost>;
  static_assert(LengthPolicy<any>);
  static_assert(any::needs_entropy);
  static_assert(!length::one_of<length::fixed, length::ewma>::needs_entropy);
  const expenses e = all_expenses()[1];
  const process text = processes()[5].text;
  const auto same = [&](auto policy) {
    return tokens_per_cost(any(policy), text, e) == tokens_per_cost(policy, text, e);
  };
  CHECK(same(length::fixed{3}));
  CHECK(same(length::entropy{}));
  CHECK(same(length::confidence{0.5}));
  CHECK(same(length::ewma{}));
  CHECK(same(at_cost(e, true)));
  CHECK(tokens_per_cost(any(), text, e) == tokens_per_cost(length::fixed{}, text, e));
  // Changed on the way: what is known of a sequence is of no use to another policy.
  any policy = length::ewma{2};
  any::memory memory;
  CHECK(policy.begin(memory, max_depth) == 2);
  for (std::int32_t step = 0; step < 20; ++step) { policy.observe(memory, 2, 0); }
  CHECK(policy.begin(memory, max_depth) == 1);
  policy = length::fixed{5};
  CHECK(policy.begin(memory, max_depth) == 5);
  policy = length::ewma{2};
  CHECK(policy.begin(memory, max_depth) == 2);
}

TEST_CASE("a length that follows what is accepted") {
  const length::ewma policy;
  const auto ends_at = [&](auto accepted_of) {
    length::ewma::memory memory;
    for (std::int32_t step = 0; step < 100; ++step) {
      const std::int32_t levels = policy.begin(memory, max_depth);
      policy.observe(memory, levels, std::min(levels, accepted_of(step)));
    }
    return memory.length;
  };
  CHECK(ends_at([](std::int32_t) { return 0; }) == 1);
  CHECK(ends_at([](std::int32_t) { return 2; }) == 3);
  CHECK(ends_at([](std::int32_t step) { return step < 50 ? 0 : 5; }) == 6);
  length::ewma::memory memory;
  CHECK(policy.begin(memory, max_depth) == 4);
  CHECK(policy.begin(memory, 2) == 2);
  for (std::int32_t step = 0; step < 100; ++step) { policy.observe(memory, 2, 2); }  // cut short
  CHECK(policy.begin(memory, max_depth) == 4);
  for (std::int32_t step = 0; step < 100; ++step) {
    const std::int32_t levels = policy.begin(memory, max_depth);
    policy.observe(memory, levels, levels);
  }
  CHECK(policy.begin(memory, 1 << 20) <= max_depth + 1);
}

}  // namespace
}  // namespace hunch::test

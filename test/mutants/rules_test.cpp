// SPDX-License-Identifier: Apache-2.0

// Negative controls for rules on trees, block verification, addresses and stages: every mutant must
// be seen by the same harness that passes the library.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../exact/steps.hpp"
#include "../support/stages.hpp"
#include "rules.hpp"

namespace hunch::test::rules_test {
namespace {

constexpr double visible = 1e-6;

/// Trees with several siblings at one node, at two depths, and in an order in which nodes are not
/// in the order of their depths.
const std::vector<std::vector<std::int32_t>> shapes{{-1, 0, 0, 0}, {-1, 0, 0, 1, 1}, {-1, 0, 1, 0}};

/// The largest distance that a rule shows over drafts of one kind.
template <class Drafter, class V>
double largest_gap(V verifier) {
  double largest = 0.0;
  for (const flavour q : {flavour::smooth, flavour::sharp}) {
    for (const auto& shape : shapes) {
      tree_case c = tree_of(flavour::smooth, q, 3, 3);
      c.shape = shape;
      largest = std::max(largest, drafted_gap(c, Drafter{{c.draft, c.shape}}, selector::full{3},
                                              plain_sampler{}, verifier));
    }
  }
  return largest;
}

using independent = mislabelled<child_law::independent, child_law::independent>;
using distinct = mislabelled<child_law::without_replacement, child_law::without_replacement>;

TEST_CASE("the right version of every rule on trees passes") {
  CHECK(largest_gap<independent>(verifier::rejection{}) <= law_tolerance);
  CHECK(largest_gap<distinct>(verifier::rejection{}) <= law_tolerance);
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::none>{}) <= law_tolerance);
  CHECK(largest_gap<distinct>(wrong_siblings<sibling_defect::none>{}) <= law_tolerance);
}

TEST_CASE("siblings tested without updating p") {
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::static_p>{}) > visible);
  CHECK(largest_gap<distinct>(wrong_siblings<sibling_defect::static_p>{}) > visible);
}

TEST_CASE("siblings tested without updating p: the published counter-example") {
  // Two independent siblings; all that counts is the law of the first token.
  const double p[] = {0.4, 0.3, 0.2, 0.1};
  const double q[] = {0.1, 0.2, 0.3, 0.4};
  tree_case c{{4}, {4}, {{0}, ask(2)}, {-1, 0, 0}};
  c.target.fixed = p;
  c.draft.fixed = q;
  const auto first_token = [&](auto rule) {
    step_law step;
    step_gap<child_law::independent>(c, selector::full{4}, plain_sampler{}, rule, &step);
    law_of_texts law;
    for (const auto& [emitted, probability] : step.emitted) { law[{emitted[0]}] += probability; }
    return law;
  };
  const law_of_texts right{{{0}, 0.4}, {{1}, 0.3}, {{2}, 0.2}, {{3}, 0.1}};
  const law_of_texts wrong{{{0}, 0.26}, {{1}, 0.32}, {{2}, 0.28}, {{3}, 0.14}};
  CHECK(distance(first_token(verifier::rejection{}), right) <= law_tolerance);
  CHECK(distance(first_token(wrong_siblings<sibling_defect::static_p>{}), wrong) <= law_tolerance);
}

TEST_CASE("what a rejection leaves of p or q is not normalised") {
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::unnormalised_p>{}) > visible);
  CHECK(largest_gap<distinct>(wrong_siblings<sibling_defect::unnormalised_q>{}) > visible);
}

TEST_CASE("the first candidate is accepted whatever the target says") {
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::first_is_accepted>{}) > visible);
}

TEST_CASE("a second sibling of the same token is left out") {
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::skips_duplicates>{}) > visible);
}

TEST_CASE("the bonus row of a tree looked up by depth") {
  CHECK(largest_gap<independent>(wrong_siblings<sibling_defect::bonus_row_by_depth>{}) > visible);
}

TEST_CASE("children verified as if they came about in another way") {
  using enum child_law;
  CHECK(largest_gap<mislabelled<without_replacement, independent>>(verifier::rejection{}) >
        visible);
  CHECK(largest_gap<mislabelled<ranked, independent>>(verifier::rejection{}) > visible);
  CHECK(largest_gap<mislabelled<ranked, without_replacement>>(verifier::rejection{}) > visible);
  // Independent children repeat themselves, which those without replacement cannot.
  using repeating = mislabelled<independent, without_replacement>;
  CHECK(largest_gap<repeating>(verifier::rejection{}) > visible);
}

/// The distance from plain decoding of whole texts over drafts of up to Length tokens.
template <std::int32_t Length, class S, class V, class Random>
law_of_texts chain_law(const exact_case& c, S sampler, V verifier, const Random& source) {
  toy_target<> target{c.target};
  toy_draft<> draft{c.draft};
  auto d = chain_decoder<Length>(target, draft, sampler, verifier, {}, source);
  return enumerate(d, source, c.requests).law;
}

template <class V>
double chain_gap(V verifier) {
  double largest = 0.0;
  for (const flavour q : {flavour::smooth, flavour::sharp}) {
    const exact_case c{{3, 45, flavour::smooth}, {3, 46, q}, {{{1, 2}, ask(4)}}};
    const law_of_texts law = chain_law<3>(c, plain_sampler{}, verifier, forking_source{});
    largest = std::max(largest, distance(law, joint_law(c.target, c.requests)));
  }
  return largest;
}

TEST_CASE("block verification that is wrong") {
  CHECK(chain_gap(verifier::block{}) <= law_tolerance);
  CHECK(chain_gap(wrong_block<block_defect::none>{}) <= law_tolerance);
  CHECK(chain_gap(wrong_block<block_defect::uncapped>{}) > visible);
  CHECK(chain_gap(wrong_block<block_defect::blind>{}) > visible);
  CHECK(chain_gap(wrong_block<block_defect::first_refusal_ends>{}) > visible);
  CHECK(chain_gap(wrong_block<block_defect::residual_of_one>{}) > visible);
}

/// The largest distance that a rule with a defect shows where some rows have no law.
template <error_defect Defect, class V>
double error_gap() {
  double largest = 0.0;
  for (const std::uint64_t bad : {1u, 2u, 3u, 4u}) {
    const exact_case c{
        {3, 45, flavour::smooth, 0, nullptr, bad}, {3, 46, flavour::smooth}, {{{1, 2}, ask(4)}}};
    const law_of_texts law =
        chain_law<3>(c, plain_sampler{}, wrong_errors<Defect, V>{}, forking_source{});
    largest = std::max(largest, distance(law, joint_law(c.target, c.requests)));
  }
  return largest;
}

TEST_CASE("a bad row after a rejected token fails the request") {
  CHECK(error_gap<error_defect::none, verifier::rejection>() <= law_tolerance);
  CHECK(error_gap<error_defect::none, verifier::block>() <= law_tolerance);
  CHECK(error_gap<error_defect::reads_ahead, verifier::rejection>() > visible);
  CHECK(error_gap<error_defect::reads_ahead, verifier::block>() > visible);
}

TEST_CASE("an error takes back accepted tokens") {
  CHECK(error_gap<error_defect::takes_back, verifier::rejection>() > visible);
  CHECK(error_gap<error_defect::takes_back, verifier::block>() > visible);
}

double total_variation(const law_of_texts& a, const law_of_texts& b) {
  double sum = 0.0;
  for (const auto& [key, p] : a) {
    const auto found = b.find(key);
    sum += std::max(p - (found == b.end() ? 0.0 : found->second), 0.0);
  }
  return sum;
}

TEST_CASE("noise keyed by position under block verification") {
  const double p[] = {1.0 / 3.0, 2.0 / 3.0};
  const double q[] = {2.0 / 3.0, 1.0 / 3.0};
  exact_case c{{2}, {2}, {{{0}, ask(4)}}};
  c.target.fixed = p;
  c.draft.fixed = q;
  const auto off = [&](auto verifier, bool by_position) {
    interval_source source;
    source.by_position = by_position;
    const law_of_texts law = chain_law<2>(c, plain_sampler{}, verifier, source);
    return total_variation(law, joint_law(c.target, c.requests));
  };
  CHECK(off(verifier::block{}, false) <= law_tolerance);
  CHECK(off(verifier::rejection{}, false) <= law_tolerance);
  // The chain rule never looks after the first rejected token, so here it would do.
  CHECK(off(verifier::rejection{}, true) <= law_tolerance);
  CHECK(off(verifier::block{}, true) == doctest::Approx(1.0 / 18.0).epsilon(1e-12));
}

template <class S>
double stage_gap(S sampler, const generation_options& options) {
  const exact_case c{{3, 97, flavour::smooth}, {3, 98, flavour::smooth}, {{{1}, options}}};
  const law_of_texts law = chain_law<3>(c, sampler, verifier::rejection{}, forking_source{});
  return distance(law, joint_law(c.target, c.requests));
}

template <class Stage>
using with = sampler::pipeline<Stage, sampler::temperature>;

TEST_CASE("one accepted token per step enters the penalties") {
  generation_options o = ask(4);
  o.frequency_penalty = 1.0f;
  CHECK(stage_gap(with<sampler::penalties>{}, o) <= law_tolerance);
  CHECK(stage_gap(with<stale_penalties>{}, o) > visible);
  CHECK(stage_gap(with<first_row_only<sampler::penalties>>{}, o) > visible);
}

/// Goes on after a token that is not allowed, so that the text that breaks it is seen.
struct forgiving_grammar : toy_grammar {
  static state advance(const state& s, token t) noexcept { return {t, s.length + 1, false}; }
};

TEST_CASE("a bias or a grammar that is honoured on the first token of a step only") {
  generation_options o = ask(4);
  o.bias = {{1, 1.5f}};
  CHECK(stage_gap(with<sampler::bias>{}, o) <= law_tolerance);
  CHECK(stage_gap(with<first_row_only<sampler::bias>>{}, o) > visible);
  o = ask(4);
  o.grammar = forgiving_grammar{{3}};
  CHECK(stage_gap(with<sampler::allowed_tokens>{}, o) <= law_tolerance);
  CHECK(stage_gap(with<first_row_only<sampler::allowed_tokens>>{}, o) > visible);
}

}  // namespace
}  // namespace hunch::test::rules_test

// SPDX-License-Identifier: Apache-2.0

// Negative controls: every mutant must be seen, by the same harness that passes the library.

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "../exact/exact.hpp"
#include "../exact/selectors.hpp"
#include "../support/word_law.hpp"
#include "mutants.hpp"

namespace hunch::test {
namespace {

constexpr double visible = 1e-6;
constexpr toy_world p_world{4, 41, flavour::smooth};
constexpr toy_world q_world{4, 42, flavour::smooth};

/// How far the law is from the right one; 1 if an invariant broke on the way.
template <class Decoder, class Source>
double gap(Decoder& decoder, const Source& source, const toy_world& world,
           const std::vector<request>& requests) {
  try {
    const enumeration found = enumerate(decoder, source, requests);
    return distance(found.law, joint_law(world, requests));
  } catch (const broken_contract&) { return 1.0; } catch (const repeated_address&) {
    return 1.0;
  }
}

template <rule_defect Defect, class S = plain_sampler>
double rule_gap(const generation_options& options, const toy_world& p = p_world) {
  forking_source source;
  toy_target<> target{p};
  toy_draft<> draft{q_world};
  auto d = chain_decoder<2>(target, draft, S{}, wrong_rejection<Defect>{}, {}, source);
  return gap(d, source, p, {{{1, 2}, options}});
}

template <source_defect Defect>
double source_gap() {
  const wrong_source<Defect> source;
  toy_target<> target{p_world};
  toy_draft<> draft{q_world};
  auto d = chain_decoder<2>(target, draft, {}, {}, {}, source);
  return gap(d, source.inner, p_world, {{{1, 2}, ask(3)}});
}

template <cache_defect Defect>
double cache_gap() {
  forking_source source;
  wrong_cache_target<Defect> target{p_world};
  toy_draft<> draft{q_world};
  auto d = chain_decoder<2>(target, draft, {}, {}, {}, source);
  return gap(d, source, p_world, {{{1, 2}, ask(4)}});
}

TEST_CASE("the right version of every mutant passes") {
  CHECK(rule_gap<rule_defect::none>(ask(4)) <= law_tolerance);
  CHECK(rule_gap<rule_defect::none>(ask(4, 0.8f)) <= law_tolerance);
  CHECK(rule_gap<rule_defect::none, top_k_sampler>(ask(4, 1.0f, 2)) <= law_tolerance);
  CHECK(source_gap<source_defect::none>() <= law_tolerance);
  CHECK(cache_gap<cache_defect::none>() <= law_tolerance);
}

TEST_CASE("always accept") { CHECK(rule_gap<rule_defect::always_accept>(ask(3)) > visible); }

TEST_CASE("residual soft-maxed") {
  CHECK(rule_gap<rule_defect::softmaxed_residual>(ask(3)) > visible);
}

TEST_CASE("resample from p instead of the residual") {
  CHECK(rule_gap<rule_defect::residual_is_p>(ask(3)) > visible);
}

TEST_CASE("residual clamped at 1e-5") {
  CHECK(rule_gap<rule_defect::clamped_residual>(ask(3)) > visible);
}

TEST_CASE("a residual that subtracts one number") {
  CHECK(rule_gap<rule_defect::scalar_residual>(ask(3)) > visible);
}

TEST_CASE("q untruncated while the draft was drawn truncated") {
  CHECK(rule_gap<rule_defect::untruncated_q, top_k_sampler>(ask(3, 1.0f, 2)) > visible);
  CHECK(rule_gap<rule_defect::untruncated_q, top_p_sampler>(ask(3, 1.0f, 0, 0.6f)) > visible);
}

TEST_CASE("q at T = 1 while the draft was drawn at T = 0.8") {
  CHECK(rule_gap<rule_defect::q_at_temperature_one>(ask(3, 0.8f)) > visible);
  CHECK(rule_gap<rule_defect::q_at_temperature_one>(ask(3)) <= law_tolerance);
}

TEST_CASE("q over a shortlist that is not normalised there") {
  CHECK(rule_gap<rule_defect::unnormalised_q>(ask(3)) > visible);
}

TEST_CASE("the bonus token from the row before") {
  CHECK(rule_gap<rule_defect::bonus_from_the_row_before>(ask(3)) > visible);
}

TEST_CASE("an argmax draft verified with q") {
  CHECK(source_gap<source_defect::argmax_drafts>() > visible);
}

TEST_CASE("draft and residual share their noise") {
  CHECK(source_gap<source_defect::shared_noise>() > visible);
}

TEST_CASE("the cache rolled back one row too far, or too few") {
  CHECK(cache_gap<cache_defect::forgets_the_last_row>() > visible);
  CHECK(cache_gap<cache_defect::keeps_a_rejected_row>() > visible);
}

TEST_CASE("a stop rule that drops the token that triggered it") {
  const auto dropping = [](double least) {
    forking_source source;
    toy_target<> target{p_world};
    toy_draft<> draft{q_world};
    using inner = drafter::autoregressive<toy_draft<>&, tree::chain<2>>;
    decoder d{target,
              dropping_drafter<inner>{inner{draft}, least},
              selector::full{4},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{},
              source};
    return gap(d, source, p_world, {{{1, 2}, ask(4)}});
  };
  CHECK(dropping(0.0) <= law_tolerance);
  CHECK(dropping(0.2) > visible);
}

TEST_CASE("a fully accepted token that is never fed to the drafter") {
  // The law cannot see this; the number of steps at p = q does.
  const auto steps = [](bool forgets) {
    forking_source source;
    toy_target<> target{p_world};
    toy_draft<> draft{p_world};
    draft.cache().forgets_catch_up = forgets;
    auto d = chain_decoder<2>(target, draft, {}, {}, {}, source);
    const std::vector<request> requests{{{1, 2}, ask(6)}};
    const enumeration found = enumerate(d, source, requests);
    CHECK(distance(found.law, joint_law(p_world, requests)) <= law_tolerance);
    return found.steps;
  };
  CHECK(steps(false) == doctest::Approx(2.0).epsilon(1e-12));
  CHECK(steps(true) > 2.0 + visible);
}

/// Drives a decoder as an engine with its own, wrong, end rules would.
template <class Ends>
double driver_gap(const request& asked, const generation_options& given, Ends&& ends) {
  forking_source source;
  toy_target<> target{p_world};
  toy_draft<> draft{q_world};
  auto d = chain_decoder<2>(target, draft, {}, {}, {}, source);
  law_of_texts law;
  do {
    source.rewind();
    text emitted;
    const request_id id = d.add(asked.prompt, given);
    while (d.running() > 0) {
      for (const emission& e : d.step()) {
        emitted.insert(emitted.end(), e.tokens.begin(), e.tokens.end());
      }
      if (ends(emitted)) { d.cancel(id); }
    }
    law[emitted] += source.probability();
  } while (source.next());
  return distance(law, joint_law(p_world, {asked}));
}

TEST_CASE("end of text inside an accepted run missed") {
  request asked{{1, 2}, ask(4)};
  const generation_options blind = asked.options;
  asked.options.stop_tokens = {1};
  const auto at_the_end = [](const text& emitted) { return emitted.back() == 1; };
  CHECK(driver_gap(asked, asked.options, at_the_end) <= law_tolerance);
  CHECK(driver_gap(asked, blind, at_the_end) > visible);
}

TEST_CASE("length overrun") {
  const request asked{{1, 2}, ask(3)};
  const auto long_enough = [](const text& emitted) { return emitted.size() >= 3; };
  CHECK(driver_gap(asked, ask(3), long_enough) <= law_tolerance);
  CHECK(driver_gap(asked, ask(5), long_enough) > visible);
}

TEST_CASE("u <= p / q accepts what the target excludes") {
  // The word 0 makes u = 0: the only word that tells < from <=.
  struct zero {
    std::uint64_t operator()(const address&) const { return 0; }
  };
  struct not_strict : random_source<zero> {
    bool bernoulli(const address&, double num, double) const { return 0.0 <= num; }
  };
  const auto emitted_impossible = [](auto source) {
    const toy_world even{4, 43, flavour::even};
    const toy_world odd{4, 44, flavour::odd};
    toy_target<> target{even};
    toy_draft<> draft{odd};
    auto d = chain_decoder<2>(target, draft, {}, {}, {}, source);
    bool impossible = false;
    for (const token t : d.generate(text{1}, ask(8))) { impossible = impossible || t % 2 == 1; }
    return impossible;
  };
  CHECK_FALSE(emitted_impossible(random_source<zero>{}));
  CHECK(emitted_impossible(not_strict{}));
}

TEST_CASE("1 - sum instead of the summed remainder") {
  // Float laws that differ by about 1e-3: the remainder by subtraction keeps four digits.
  constexpr std::int64_t n = 100;
  const auto law = [](double phase) {
    std::vector<double> p(n);
    double sum = 0.0;
    for (double& x : p) { sum += x = 1.0 + 1e-3 * std::sin(phase += 1.0); }
    for (double& x : p) { x /= sum; }
    return p;
  };
  const std::vector<double> p = law(0.0);
  const std::vector<double> q = law(2.0);
  std::vector<float> rest(n);
  float overlap = 0.0f;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto p_i = static_cast<float>(p[i]);
    const auto q_i = static_cast<float>(q[i]);
    rest[i] = p_i > q_i ? p_i - q_i : 0.0f;
    overlap += p_i < q_i ? p_i : q_i;
  }
  const auto weight = [&](std::int64_t i) { return rest[static_cast<std::size_t>(i)]; };
  const auto right = [&](std::uint64_t word) {
    team::serial team;
    return kernel::draw(team, n, weight, word);
  };
  const auto wrong = [&](std::uint64_t word) {
    kernel::detail::prefix_walk walk{kernel::uniform(word) * static_cast<double>(1.0f - overlap)};
    for (std::int32_t i = 0; i < n; ++i) { walk.visit(i, static_cast<double>(weight(i))); }
    return walk.chosen;
  };
  CHECK(total_variation(word_counts(n, right, draw_order), rest) <= 1e-12);
  CHECK(total_variation(word_counts(n, wrong, draw_order), rest) > visible);
}

}  // namespace
}  // namespace hunch::test

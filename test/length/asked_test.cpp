// SPDX-License-Identifier: Apache-2.0

// What drafters tell a length policy of the tokens of a level.

#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/length/length.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/toy_model.hpp"

namespace hunch::test {
namespace {

/// Goes on as long as it may and notes what it is told.
struct listener {
  static constexpr bool needs_entropy = false;
  struct memory {};
  std::vector<length_evidence>* heard;

  std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  bool continues(memory&, const length_evidence& evidence) const {
    heard->push_back(evidence);
    return true;
  }
  void observe(memory&, std::int32_t, std::int32_t) const noexcept {}
};

template <class Tree, class S, class V>
std::vector<length_evidence> told(const S& sampler, const V& verifier, float temperature) {
  std::vector<length_evidence> heard;
  toy_target<> target{toy_world{5, 21, flavour::smooth}};
  toy_draft<> draft{toy_world{5, 22, flavour::smooth}};
  decoder_options options;
  options.draft_length = 3;
  decoder d{target,
            drafter::autoregressive{draft, Tree{}, listener{&heard}},
            selector::full{5},
            sampler,
            verifier,
            options};
  generation_options asked;
  asked.max_new_tokens = 12;
  asked.temperature = temperature;
  d.add(std::vector<token>{1, 2}, asked);
  while (d.running() > 0) { d.step(); }
  CHECK(heard.size() > 4);
  return heard;
}

/// Drafts as deep as it may and notes how many levels it is told of.
struct observer {
  static constexpr bool needs_entropy = false;
  struct memory {};
  std::vector<std::int32_t>* levels;

  std::int32_t begin(memory&, std::int32_t max_depth) const { return max_depth; }
  bool continues(memory&, const length_evidence&) const { return true; }
  void observe(memory&, std::int32_t seen, std::int32_t) const noexcept { levels->push_back(seen); }
};

TEST_CASE("a policy is told of the levels that the target has seen, not of all that were drawn") {
  std::vector<std::int32_t> told;
  toy_target<> target{toy_world{5, 21, flavour::smooth}};
  toy_draft<> draft{toy_world{5, 22, flavour::smooth}};
  // Three levels are drawn, and of their nodes the best three are kept, which have fewer at times.
  decoder d{target,
            drafter::autoregressive{draft, tree::dynamic<3, 3, 3>{}, observer{&told}},
            selector::full{5},
            sampler::pipeline<sampler::temperature>{},
            verifier::point_mass{},
            decoder_options{}};
  generation_options asked;
  asked.max_new_tokens = 40;
  d.add(std::vector<token>{1, 2}, asked);
  const auto proposed = [&] {
    const auto stats = d.stats();
    return std::reduce(std::begin(stats.proposed_at), std::end(stats.proposed_at));
  };
  int shortened = 0;
  for (std::int64_t before = 0; d.running() > 0; before = proposed()) {
    told.clear();
    d.step();
    if (told.empty()) { continue; }  // a step of the prompt, or the last one
    REQUIRE(told.size() == 1);
    CHECK(told[0] == proposed() - before);
    shortened += told[0] < 3 ? 1 : 0;
  }
  CHECK(shortened > 3);
}

void check_drawn(const std::vector<length_evidence>& heard, bool drawn) {
  for (const length_evidence& e : heard) { CHECK(e.drawn == drawn); }
}

using by_chance = sampler::pipeline<sampler::temperature>;

TEST_CASE("a policy is told whether tokens were drawn by chance or chosen") {
  const by_chance warm;
  check_drawn(told<tree::chain<3>>(warm, verifier::rejection{}, 1.0f), true);
  check_drawn(told<tree::sampled<2, 1, 1>>(warm, verifier::rejection{}, 0.5f), true);
  check_drawn(told<tree::chain<3>>(warm, verifier::rejection{}, 0.0f), false);
  check_drawn(told<tree::chain<3>>(sampler::greedy{}, verifier::greedy{}, 1.0f), false);
  check_drawn(told<tree::dynamic<2, 3, 6>>(warm, verifier::point_mass{}, 1.0f), false);
}

TEST_CASE("a policy is told how many rows the target will have") {
  for (const length_evidence& e : told<tree::chain<3>>(by_chance{}, verifier::rejection{}, 1.0f)) {
    CHECK(e.rows == 1 + e.depth);
  }
  using bush = tree::sampled<2, 1, 1>;
  for (const length_evidence& e : told<bush>(by_chance{}, verifier::rejection{}, 1.0f)) {
    CHECK(e.rows <= 1 + 2 * e.depth);
    CHECK(e.rows > e.depth);
  }
}

}  // namespace
}  // namespace hunch::test

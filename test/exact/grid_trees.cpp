// SPDX-License-Identifier: Apache-2.0

// The grid: trees of every shape by every drafter, by every rule, over every kind of shortlist.

#include <hunch/selector/trimmed.hpp>
#include "grid.hpp"

namespace hunch::test {
namespace {

TEST_CASE("grid: trees of a draft model") {
  const length::fixed policy;
  grid_row(by_model(sampled_tree{}, policy), plain_sampler{}, verifier::rejection{});
  grid_row(by_model(sampled_tree{}, policy), plain_sampler{}, verifier::point_mass{});
  grid_row(by_model(sampled_tree{}, policy), plain_sampler{}, verifier::coupled{});
  grid_row(by_model(fixed_tree{}, policy), plain_sampler{}, verifier::point_mass{});
  grid_row(by_model(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{});
  grid_row(by_model(deep_tree{}, policy), sampler::greedy{}, verifier::greedy{}, ask(6, 0.0f));
}

TEST_CASE("grid: trees of a draft model that reads accepted tokens again") {
  const length::fixed policy;
  const auto routed = toy_clustered(shuffled_layout(3, 3), 1, budget::fixed{1});
  grid_row(by_eagle(sampled_tree{}, policy), every_stage{}, verifier::rejection{}, staged(5));
  grid_row(by_eagle(fixed_tree{}, policy), plain_sampler{}, verifier::coupled{}, ask(5));
  grid_row(by_eagle(deep_tree{}, policy), routed, plain_sampler{}, verifier::point_mass{}, ask(5));
}

TEST_CASE("grid: trees of early exit, heads and streams") {
  // Heads and streams draft from the second step on.
  const auto with = [](const auto& by) {
    const length::fixed policy;
    grid_row(by(sampled_tree{}, policy), plain_sampler{}, verifier::rejection{}, ask(5));
    grid_row(by(fixed_tree{}, policy), every_stage{}, verifier::point_mass{}, staged(5));
    grid_row(by(deep_tree{}, policy), plain_sampler{}, verifier::coupled{}, ask(5));
  };
  with(by_early_exit);
  with(by_heads);
  with(by_streams);
}

TEST_CASE("grid: pruned trees") {
  const length::fixed policy;
  grid_row(by_pruned_heads(deep_tree{}, policy), every_stage{}, verifier::point_mass{}, staged(5));
  grid_row(by_pruned_heads(fixed_tree{}, policy), plain_sampler{}, verifier::coupled{}, ask(5));
  grid_row(by_pruned_streams(deep_tree{}, policy), every_stage{}, verifier::point_mass{},
           staged(5));
  grid_row(by_pruned_streams(fixed_tree{}, policy), sampler::greedy{}, verifier::greedy{},
           ask(6, 0.0f));
}

TEST_CASE("grid: merged trees") {
  const length::fixed policy;
  grid_row(by_lookup_and_model(deep_tree{}, policy), every_stage{}, verifier::point_mass{},
           staged(5));
  grid_row(by_lookup_and_model(chain{}, policy), plain_sampler{}, verifier::coupled{}, ask(5));
  grid_row(by_streams_and_eagle(fixed_tree{}, policy), every_stage{}, verifier::point_mass{},
           staged(5));
  grid_row(by_streams_and_eagle(fixed_tree{}, policy), sampler::greedy{}, verifier::greedy{},
           ask(6, 0.0f));
}

TEST_CASE("grid: what is looked up, or a tree of a model") {
  const length::fixed policy;
  grid_row(by_lookup_or_model(sampled_tree{}, policy), every_stage{}, verifier::rejection{},
           staged());
  grid_row(by_lookup_or_model(deep_tree{}, policy), every_stage{}, verifier::point_mass{},
           staged());
  grid_row(by_lookup_or_model(fixed_tree{}, policy), plain_sampler{}, verifier::coupled{});
}

TEST_CASE("grid: length policies of trees") {
  for_each_length_policy([](auto policy) {
    grid_row(by_model(sampled_tree{}, policy), plain_sampler{}, verifier::rejection{});
    grid_row(by_model(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{});
    grid_row(by_heads(sampled_tree{}, policy), plain_sampler{}, verifier::rejection{}, ask(5));
    grid_row(by_streams(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{}, ask(5));
  });
}

TEST_CASE("grid: selectors") {
  const auto with = [](const auto& selector) {
    const length::fixed policy;
    const plain_sampler sampler;
    grid_row(by_model(chain{}, policy), selector, sampler, verifier::block{});
    grid_row(by_model(sampled_tree{}, policy), selector, sampler, verifier::rejection{});
    grid_row(by_model(deep_tree{}, policy), selector, sampler, verifier::point_mass{});
  };
  for_each_selector(3, with);
  with(selector::trimmed{shuffled_layout(3, 2)});
}

TEST_CASE("grid: every stage of the sampler over trees") {
  const length::fixed policy;
  grid_row(by_model(sampled_tree{}, policy), every_stage{}, verifier::rejection{}, staged());
  grid_row(by_model(sampled_tree{}, policy), toy_selector{shuffled_layout(3, 2)}, every_stage{},
           verifier::rejection{}, staged());
  grid_row(by_model(deep_tree{}, policy), every_stage{}, verifier::point_mass{}, staged());
}

}  // namespace
}  // namespace hunch::test

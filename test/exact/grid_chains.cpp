// SPDX-License-Identifier: Apache-2.0

// The grid: chains by every drafter, length policy and sampler, by every rule.

#include <hunch/drafter/one_of.hpp>
#include <hunch/verifier/one_of.hpp>
#include "grid.hpp"

namespace hunch::test {
namespace {

const auto nothing = [](auto&) { return drafter::none{}; };
const auto looked_up = [](auto&) { return drafter::lookup<2>{}; };

/// A drafter with every rule of chains that takes a draft law.
template <class Make>
void by_every_rule(const Make& make) {
  grid_row(make, plain_sampler{}, verifier::rejection{});
  grid_row(make, plain_sampler{}, verifier::block{});
  grid_row(make, plain_sampler{}, verifier::point_mass{});
  grid_row(make, plain_sampler{}, verifier::coupled{});
  grid_row(make, sampler::greedy{}, verifier::greedy{}, ask(6, 0.0f));
}

TEST_CASE("grid: plain decoding") { by_every_rule(nothing); }

TEST_CASE("grid: a draft model") {
  by_every_rule(by_model(chain{}, length::fixed{}));
  grid_row(by_model(chain{}, length::fixed{}), full_sampler{}, verifier::block{},
           ask(4, 0.8f, 2, 0.9f));
}

TEST_CASE("grid: a draft model that reads accepted tokens again") {
  // Texts are long enough for a step after one in which drafts were accepted.
  grid_row(by_eagle(chain{}, length::fixed{}), plain_sampler{}, verifier::rejection{}, ask(5));
  grid_row(by_eagle(chain{}, length::fixed{}), every_stage{}, verifier::block{}, staged(5));
  grid_row(by_eagle(chain{}, length::fixed{}), plain_sampler{}, verifier::coupled{}, ask(5));
}

TEST_CASE("grid: early exit over the target's cache") {
  by_every_rule(by_early_exit(chain{}, length::fixed{}));
  grid_row(by_early_exit(chain{}, length::fixed{}), every_stage{}, verifier::block{}, staged());
}

TEST_CASE("grid: heads and streams") {
  grid_row(by_heads(chain{}, length::fixed{}), plain_sampler{}, verifier::rejection{}, ask(5));
  grid_row(by_heads(chain{}, length::fixed{}), every_stage{}, verifier::block{}, staged(5));
  grid_row(by_streams(chain{}, length::fixed{}), every_stage{}, verifier::block{}, staged(5));
  grid_row(by_streams(chain{}, length::fixed{}), plain_sampler{}, verifier::coupled{}, ask(5));
}

TEST_CASE("grid: what is looked up") {
  grid_row(looked_up, every_stage{}, verifier::point_mass{}, staged());
  grid_row(looked_up, plain_sampler{}, verifier::coupled{});
  grid_row(looked_up, sampler::greedy{}, verifier::greedy{}, ask(6, 0.0f));
}

TEST_CASE("grid: what is looked up, or drafted by a model") {
  const auto turns = by_lookup_or_model(chain{}, length::fixed{});
  grid_row(turns, every_stage{}, verifier::rejection{}, staged());
  grid_row(turns, plain_sampler{}, verifier::block{});
  grid_row(turns, plain_sampler{}, verifier::coupled{});
  grid_row(turns, sampler::greedy{}, verifier::greedy{}, ask(6, 0.0f));
}

/// A drafter that could have been another one, and so a rule.
const auto one_of_two = [](auto& m) {
  using model = decltype(by_model(chain{}, length::fixed{})(m));
  return drafter::one_of<model, drafter::lookup<2>>(by_model(chain{}, length::fixed{})(m));
};
const auto other_of_two = [](auto& m) {
  using of = decltype(one_of_two(m));
  return of(drafter::lookup<2>{});
};
using one_rule = verifier::one_of<verifier::rejection, verifier::block, verifier::point_mass>;
using shared_noise = verifier::one_of<verifier::rejection, verifier::coupled>;

TEST_CASE("grid: what is chosen when the program runs") {
  grid_row(one_of_two, every_stage{}, one_rule(verifier::block{}), staged());
  grid_row(one_of_two, plain_sampler{}, one_rule(verifier::point_mass{}));
  grid_row(other_of_two, every_stage{}, one_rule(verifier::rejection{}), staged());
  grid_row(one_of_two, plain_sampler{}, shared_noise(verifier::rejection{}));
  grid_row(other_of_two, plain_sampler{}, shared_noise(verifier::coupled{}));
}

TEST_CASE("grid: length policies") {
  for_each_length_policy([](auto policy) {
    grid_row(by_model(chain{}, policy), plain_sampler{}, verifier::rejection{});
    grid_row(by_model(chain{}, policy), plain_sampler{}, verifier::block{});
    grid_row(by_early_exit(chain{}, policy), plain_sampler{}, verifier::block{});
    grid_row(
        [=](auto&) {
          return drafter::lookup<3, 3, decltype(policy)>{1, policy};
        },
        plain_sampler{}, verifier::point_mass{});
  });
}

TEST_CASE("grid: every stage of the sampler, and grammars that come to an end") {
  const auto with = [](const auto& make) {
    grid_row(make, every_stage{}, verifier::rejection{}, staged());
    grid_row(make, every_stage{}, verifier::block{}, staged());
    grid_row(make, every_stage{}, verifier::point_mass{}, staged());
    grid_row(make, every_stage{}, verifier::coupled{}, staged());
  };
  with(nothing);
  with(by_model(chain{}, length::fixed{}));
}

}  // namespace
}  // namespace hunch::test

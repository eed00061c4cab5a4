// SPDX-License-Identifier: Apache-2.0

// The joint law over models with 16-bit logits is that of plain decoding over these logits. Laws of
// such rows are computed in float, and so the two differ by its rounding; what is not that is found
// by test/decoder/half_logits_test.cpp, which compares bits.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <hunch/core/logit.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../support/rounded_models.hpp"
#include "../support/stages.hpp"
#include "exact.hpp"

namespace hunch::test {
namespace {

/// Of laws in float, over texts of a few tokens.
constexpr double float_tolerance = 2e-7;

constexpr std::pair<flavour, flavour> pairs[] = {
    {flavour::smooth, flavour::smooth}, {flavour::sharp, flavour::smooth},
    {flavour::tied, flavour::tied},     {flavour::masked, flavour::masked},
    {flavour::even, flavour::odd},      {flavour::smooth, flavour::one_hot}};

template <class Half>
void round_row(std::uint64_t, std::int32_t vocab, double* row) {
  for (std::int32_t v = 0; v < vocab; ++v) {
    row[v] = static_cast<double>(rounded<float, Half>(static_cast<float>(row[v])));
  }
}

/// Plain decoding in double over logits that are rounded to the 16-bit type.
template <class Half, class S>
law_of_texts plain_law(const exact_case& c, S sampler) {
  forking_source source;
  toy_target<> target{c.target};
  target.edit = round_row<Half>;
  decoder d{target,  drafter::none{},       selector::full{c.target.vocab},
            sampler, verifier::rejection{}, c.options,
            source};
  return enumerate(d, source, c.requests).law;
}

/// The law of a composition over 16-bit logits. \param drafter_of makes its drafter.
template <class Half, class S, class V>
law_of_texts half_law(const exact_case& c, auto drafter_of, S sampler, V verifier) {
  forking_source source;
  rounded_target<Half, Half> target{c.target};
  rounded_draft<Half, Half> draft{c.draft};
  decoder d{target, drafter_of(draft), selector::full{c.target.vocab}, sampler, verifier, c.options,
            source};
  static_assert(decltype(d)::lossless);
  const enumeration found = enumerate(d, source, c.requests);
  CHECK(std::abs(found.total - 1.0) <= float_tolerance);
  return found.law;
}

constexpr auto undrafted = [](auto&) { return drafter::none{}; };
constexpr auto chain = [](auto& draft) { return drafter::autoregressive{draft, tree::chain<2>{}}; };
constexpr auto siblings = [](auto& draft) {
  return drafter::autoregressive{draft, tree::sampled<2, 1>{}};
};
constexpr auto in_turn = [](auto& draft) {
  return drafter::cascade{drafter::lookup<2, 1>{}, chain(draft)};
};
constexpr auto ranked = [](auto& draft) {
  return drafter::autoregressive{draft, tree::dynamic<2, 2, 4>{}};
};

/// Calls use(law) with the law of each kind of draft.
template <class Half, class S, class Use>
void for_each_draft(const exact_case& c, S sampler, Use&& use) {
  use(half_law<Half>(c, chain, sampler, verifier::rejection{}));
  use(half_law<Half>(c, chain, sampler, verifier::block{}));
  use(half_law<Half>(c, siblings, sampler, verifier::rejection{}));
  use(half_law<Half>(c, in_turn, sampler, verifier::rejection{}));
  use(half_law<Half>(c, ranked, sampler, verifier::point_mass{}));
}

TEST_CASE_TEMPLATE("drafts over 16-bit logits have the law of plain decoding", Half, bfloat16,
                   float16) {
  double most = 0.0;
  for (const auto& [p, q] : pairs) {
    for (const generation_options& o :
         {ask(3), ask(3, 0.7f, 3), ask(3, 1.2f, 0, 0.8f), ask(3, 0.0f)}) {
      const exact_case c{{4, 21, p}, {4, 22, q}, {{{1, 3}, o}}};
      const law_of_texts expected = plain_law<Half>(c, full_sampler{});
      for_each_draft<Half>(c, full_sampler{}, [&](const law_of_texts& found) {
        most = std::max(most, distance(found, expected));
      });
    }
  }
  CHECK(most <= float_tolerance);
  MESSAGE("distance at most " << most);
}

TEST_CASE_TEMPLATE("so they have where logits are edited, each edit rounded", Half, bfloat16,
                   float16) {
  double most = 0.0;
  for (const auto& [p, q] : pairs) {
    exact_case c{{4, 23, p}, {4, 24, q}, {{{1, 3}, with_every_stage(ask(3), 4)}}};
    const law_of_texts expected =
        half_law<Half>(c, undrafted, every_stage{}, verifier::rejection{});
    for_each_draft<Half>(c, every_stage{}, [&](const law_of_texts& found) {
      most = std::max(most, distance(found, expected));
    });
  }
  CHECK(most <= float_tolerance);
  MESSAGE("distance at most " << most);
}

TEST_CASE("the rounding of logits is more than the tolerance") {
  const exact_case c{{4, 21, flavour::smooth}, {4, 22, flavour::smooth}, {{{1, 3}, ask(3)}}};
  const law_of_texts found = half_law<bfloat16>(c, chain, full_sampler{}, verifier::rejection{});
  CHECK(distance(found, joint_law(c.target, c.requests)) > 100.0 * float_tolerance);
}

}  // namespace
}  // namespace hunch::test

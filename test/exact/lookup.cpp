// SPDX-License-Identifier: Apache-2.0

// The exact joint law of drafts that are looked up in the text: for every kind of law, over ends of
// texts, in batches, with prompts in pieces.

#include <cstdint>
#include <vector>

#include <hunch/drafter/lookup.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "exact.hpp"

namespace hunch::test {
namespace {

template <std::int32_t Length, std::int32_t Longest, class S, class V>
enumeration exact_lookup(exact_case c, S sampler, V verifier, std::int32_t shortest = 1) {
  forking_source source;
  toy_target<> target{c.target};
  c.options.max_batch = batch_of(c);
  decoder d{target,
            drafter::lookup<Length, Longest>{shortest},
            selector::full{c.target.vocab},
            sampler,
            verifier,
            c.options,
            source};
  const enumeration found = check_law(d, source, c);
  target.cache().check();
  return found;
}

TEST_CASE("looked-up drafts are exact for every kind of law") {
  std::int64_t tapes = 0;
  for (const flavour p : all_flavours) {
    for (const std::int32_t vocab : {1, 2, 3}) {
      for (const float temperature : {1.0f, 0.6f, 0.0f}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(vocab);
        CAPTURE(temperature);
        exact_case c{{vocab, 41, p}, {}, {{{0, vocab - 1, 0}, ask(5, temperature)}}};
        const verifier::point_mass rule;
        tapes += exact_lookup<3, 4>(c, plain_sampler{}, rule).tapes;
        tapes += exact_lookup<1, 1>(c, plain_sampler{}, rule).tapes;
        tapes += exact_lookup<5, 2>(c, plain_sampler{}, rule, 2).tapes;
        c.requests[0].options = ask(4, temperature, 2, 0.9f);
        tapes += exact_lookup<3, 2>(c, full_sampler{}, rule).tapes;
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("what is looked up is drafted: a text of one token comes in two steps") {
  const exact_case c{{1, 41, flavour::smooth}, {}, {{{0, 0}, ask(5)}}};
  CHECK(exact_lookup<3, 4>(c, plain_sampler{}, verifier::point_mass{}).steps ==
        doctest::Approx(2.0));
}

TEST_CASE("greedy texts over looked-up drafts") {
  for (const flavour p : all_flavours) {
    for (const std::int32_t length : {1, 2, 9}) {
      const exact_case c{{3, 42, p}, {}, {{{0, 1, 0}, ask(length, 0.0f)}}};
      CHECK(exact_lookup<3, 4>(c, sampler::greedy{}, verifier::greedy{}).tapes == 1);
      CHECK(exact_lookup<4, 1>(c, sampler::greedy{}, verifier::point_mass{}).tapes == 1);
    }
  }
}

TEST_CASE("looked-up drafts where texts end, draft lengths change, and prompts come in pieces") {
  const toy_world world{3, 43, flavour::smooth};
  const verifier::point_mass rule;
  for (std::int32_t length = 1; length <= 5; ++length) {
    for (std::int32_t gamma = 0; gamma <= 3; ++gamma) {
      for (const std::int32_t chunk : {2, 256}) {
        exact_case c{world, {}, {{{2, 0, 1, 2, 0}, ask(length)}}};
        c.options.draft_length = gamma;
        c.options.chunk = chunk;
        exact_lookup<3, 4>(c, plain_sampler{}, rule);
        c.requests[0].options.stop_tokens = {1};
        exact_lookup<3, 4>(c, plain_sampler{}, rule);
      }
    }
  }
}

TEST_CASE("looked-up drafts of a batch") {
  for (const std::int32_t arrives : {0, 1}) {
    exact_case c{
        {3, 44, flavour::smooth}, {}, {{{0, 1, 0}, ask(3)}, {{2, 0, 0}, ask(3, 0.7f), arrives}}};
    c.requests[0].options.seed = 5;
    c.requests[1].options.stop_tokens = {0};
    exact_lookup<2, 3>(c, plain_sampler{}, verifier::point_mass{});
  }
}

}  // namespace
}  // namespace hunch::test

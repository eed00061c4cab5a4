// SPDX-License-Identifier: Apache-2.0

// The exact joint law of every composition of drafter, selector, sampler and verifier.

#include <vector>

#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test {
namespace {

TEST_CASE("a chain draft is exact for every pair of kinds of law") {
  std::int64_t tapes = 0;
  for (const flavour p : all_flavours) {
    for (const flavour q : all_flavours) {
      for (const std::int32_t vocab : {2, 3, 4}) {
        CAPTURE(static_cast<int>(p));
        CAPTURE(static_cast<int>(q));
        CAPTURE(vocab);
        const exact_case c = case_of(p, q, vocab, vocab == 4 ? 3 : 4);
        tapes +=
            exact_chain<3>(c, selector::full{vocab}, plain_sampler{}, verifier::rejection{}).tapes;
      }
    }
  }
  MESSAGE(tapes << " tapes");
}

TEST_CASE("a vocabulary of one token") {
  const exact_case c = case_of(flavour::smooth, flavour::smooth, 1, 5);
  CHECK(exact_chain<3>(c, selector::full{1}, plain_sampler{}, verifier::rejection{}).tapes == 1);
  CHECK(exact_plain(c, plain_sampler{}, verifier::rejection{}).tapes == 1);
}

TEST_CASE("plain decoding is exact with every sampler") {
  for (const flavour p : all_flavours) {
    CAPTURE(static_cast<int>(p));
    for (const float temperature : {1.0f, 0.6f, 0.0f}) {
      exact_case c = case_of(p, p, 4, 4, temperature);
      exact_plain(c, plain_sampler{}, verifier::rejection{});
      c.requests[0].options = ask(4, temperature, 2);
      exact_plain(c, top_k_sampler{}, verifier::rejection{});
      c.requests[0].options = ask(4, temperature, 0, 0.8f);
      exact_plain(c, top_p_sampler{}, verifier::rejection{});
      c.requests[0].options = ask(3, temperature, 3, 0.7f);
      exact_plain(c, full_sampler{}, verifier::rejection{});
    }
    const exact_case greedy = case_of(p, p, 4, 5, 0.0f);
    CHECK(exact_plain(greedy, sampler::greedy{}, verifier::greedy{}).tapes == 1);
    CHECK(exact_plain(greedy, sampler::greedy{}, verifier::rejection{}).tapes == 1);
  }
}

TEST_CASE("greedy decoding is exact over every selector, by both verifiers") {
  for (const flavour p : all_flavours) {
    for (const flavour q : {flavour::smooth, flavour::one_hot, flavour::odd, flavour::tied}) {
      CAPTURE(static_cast<int>(p));
      CAPTURE(static_cast<int>(q));
      const exact_case c = case_of(p, q, 4, 5, 0.0f);
      CHECK(over_selectors(c, sampler::greedy{}, verifier::greedy{}) == selector_count);
      CHECK(over_selectors(c, sampler::greedy{}, verifier::rejection{}) == selector_count);
      CHECK(over_selectors(c, plain_sampler{}, verifier::rejection{}) == selector_count);
    }
  }
}

TEST_CASE("sampling is exact over every selector") {
  std::int64_t tapes = 0;
  for (const flavour p : {flavour::smooth, flavour::sharp, flavour::masked, flavour::tied,
                          flavour::denormal, flavour::odd}) {
    for (const flavour q : {flavour::smooth, flavour::sharp, flavour::masked, flavour::uniform}) {
      CAPTURE(static_cast<int>(p));
      CAPTURE(static_cast<int>(q));
      tapes += over_selectors(case_of(p, q, 4, 3), plain_sampler{}, verifier::rejection{});
      tapes += over_selectors(case_of(p, q, 3, 4, 0.7f), plain_sampler{}, verifier::rejection{});
    }
  }
  MESSAGE(tapes << " tapes");
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// The exact joint law of every composition of drafter, selector, sampler and verifier.

#include <vector>

#include "../support/rereading_draft.hpp"
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

TEST_CASE("a draft model that reads accepted tokens again") {
  const exact_case c = case_of(flavour::smooth, flavour::sharp, 3, 5);
  forking_source source;
  toy_target<> target{c.target};
  rereading_draft<> draft{c.draft};
  draft.target = &target;
  decoder d =
      chain_decoder<3>(target, draft, plain_sampler{}, verifier::rejection{}, c.options, source);
  check_law(d, source, c);
  draft.cache().check();
  CHECK(draft.passes > 0);
  CHECK_FALSE(draft.kept_a_guess);
  CHECK_FALSE(draft.read_ahead);
  // At temperature 0 there is one text.
  const auto text_of = [&](auto& model) {
    toy_target<float> of{{30, 5, flavour::smooth}};
    decoder e = chain_decoder<4>(of, model);
    std::vector<token> out;
    const std::vector<token> prompt{1, 2, 3};
    for (const token t : e.generate(prompt, {.max_new_tokens = 60, .temperature = 0.0f})) {
      out.push_back(t);
    }
    return out;
  };
  rereading_draft<float> again{{30, 6, flavour::smooth}};
  toy_draft<float> once{{30, 6, flavour::smooth}};
  CHECK(text_of(again) == text_of(once));
  // Negative control: a model that keeps its guesses is seen to.
  watched_draft<> keeping{c.draft};
  toy_target<> other{c.target};
  keeping.target = &other;
  decoder k =
      chain_decoder<3>(other, keeping, plain_sampler{}, verifier::rejection{}, c.options, source);
  check_law(k, source, c);
  CHECK(keeping.kept_a_guess);
  CHECK(keeping.read_ahead);
}

}  // namespace
}  // namespace hunch::test

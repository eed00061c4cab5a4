// SPDX-License-Identifier: Apache-2.0

// The exact joint law of the loop: draft lengths, ends of text, batches, prompts in pieces, caches
// that run full.

#include <string>
#include <vector>

#include "../support/full.hpp"
#include "exact.hpp"
#include "selectors.hpp"

namespace hunch::test {
namespace {

constexpr toy_world target_world{3, 31, flavour::smooth};
constexpr toy_world draft_world{3, 32, flavour::smooth};

template <std::int32_t Length>
enumeration run(const exact_case& c) {
  return exact_chain<Length>(c, selector::full{c.target.vocab}, plain_sampler{},
                             verifier::rejection{});
}

template <std::int32_t Length>
std::int64_t check_chain() {
  std::int64_t tapes = 0;
  for (std::int32_t length = 1; length <= 4; ++length) {
    for (std::int32_t gamma = 0; gamma <= Length; ++gamma) {
      CAPTURE(length);
      CAPTURE(gamma);
      exact_case c{target_world, draft_world, {{{2}, ask(length)}}};
      c.options.draft_length = gamma;
      tapes += run<Length>(c).tapes;
    }
  }
  return tapes;
}

TEST_CASE("every chain, draft length and text length") {
  std::int64_t tapes = 0;
  tapes += check_chain<1>();
  tapes += check_chain<2>();
  tapes += check_chain<3>();
  tapes += check_chain<4>();
  for (const std::int32_t vocab : {2, 3}) {
    const exact_case c{{vocab, 33}, {vocab, 34}, {{{1, 0}, ask(5)}}};
    tapes += run<4>(c).tapes;
    tapes += run<2>(c).tapes;
  }
  const exact_case wide{{4, 33}, {4, 34}, {{{1, 0}, ask(4)}}};
  tapes += run<3>(wide).tapes;
  tapes += run<4>(wide).tapes;
  MESSAGE(tapes << " tapes");
}

TEST_CASE("p = q accepts every draft: gamma + 1 tokens per step") {
  const auto steps = [](auto length, std::int32_t tokens) {
    const exact_case c{target_world, target_world, {{{0, 1}, ask(tokens)}}};
    return run<decltype(length)::value>(c).steps;
  };
  CHECK(steps(std::integral_constant<std::int32_t, 1>{}, 4) == doctest::Approx(2.0).epsilon(1e-12));
  CHECK(steps(std::integral_constant<std::int32_t, 2>{}, 6) == doctest::Approx(2.0).epsilon(1e-12));
  CHECK(steps(std::integral_constant<std::int32_t, 3>{}, 8) == doctest::Approx(2.0).epsilon(1e-12));
}

TEST_CASE("a text ends at the first stop token, wherever in an accepted run it is") {
  for (const std::vector<token>& stops : {std::vector<token>{1}, {0, 2}, {0, 1, 2}, {}}) {
    for (const toy_world& draft : {draft_world, target_world}) {
      exact_case c{target_world, draft, {{{2, 2}, ask(5)}}};
      c.requests[0].options.stop_tokens = stops;
      run<3>(c);
      run<1>(c);
      exact_plain(c, plain_sampler{}, verifier::rejection{});
    }
  }
}

std::string letters(token t) { return std::string(1, static_cast<char>('a' + t)); }
std::string uneven(token t) { return t == 0 ? "" : t == 1 ? "ab" : "bab"; }

TEST_CASE("a text ends with the token that completes a stop string") {
  for (const auto bytes : {&letters, &uneven}) {
    for (const std::vector<std::string>& stops :
         {std::vector<std::string>{"ab"}, {"bba", "c"}, {"abab", "cc"}, {"a"}}) {
      exact_case c{target_world, target_world, {{{2, 2}, ask(5)}}, {}, bytes};
      c.requests[0].options.stop_strings = stops;
      c.requests[0].options.stop_tokens = {2};
      std::string held;
      c.options.token_text = [held, bytes](token t) mutable {
        held = bytes(t);
        return std::string_view(held);
      };
      run<3>(c);
      c.draft = draft_world;
      c.requests[0].options.stop_tokens = {};
      run<2>(c);
      exact_plain(c, plain_sampler{}, verifier::rejection{});
    }
  }
}

TEST_CASE("two sequences of different laws are exact and independent") {
  std::int64_t tapes = 0;
  for (const std::int32_t arrives : {0, 1}) {
    exact_case c{target_world, draft_world, {{{0, 1}, ask(2)}, {{2, 0, 0}, ask(3, 0.7f), arrives}}};
    c.requests[0].options.seed = 5;
    tapes += run<2>(c).tapes;
    c.requests[0].options.stop_tokens = {1};
    c.requests[1].options.stop_tokens = {0};
    tapes += run<3>(c).tapes;
    c.target.vocab = c.draft.vocab = 2;
    c.requests = {{{1}, ask(4)}, {{0, 1, 1}, ask(3), arrives}};
    c.requests[0].options.seed = 5;
    tapes += run<2>(c).tapes;
  }
  exact_case longer{target_world, draft_world, {{{0, 1}, ask(3)}, {{2, 0, 0}, ask(3), 1}}};
  longer.requests[0].options.seed = 5;
  tapes += run<3>(longer).tapes;
  MESSAGE(tapes << " tapes");
}

TEST_CASE("larger runs, near the limit of two million tapes") {
  if (!full_run()) { return; }
  std::int64_t tapes = 0;
  tapes += run<3>({target_world, draft_world, {{{1, 0}, ask(6)}}}).tapes;
  tapes += run<2>({{4, 1}, {4, 2}, {{{1, 0}, ask(5)}}}).tapes;
  exact_case batch{{2, 1}, {2, 2}, {{{1, 0}, ask(5)}, {{0, 1, 1}, ask(5), 1}}};
  batch.requests[0].options.seed = 5;
  tapes += run<3>(batch).tapes;
  batch = {target_world, draft_world, {{{1, 0}, ask(4)}, {{0, 1, 1}, ask(3), 1}}};
  batch.requests[0].options.seed = 5;
  tapes += run<2>(batch).tapes;
  MESSAGE(tapes << " tapes");
}

TEST_CASE("prompts that are read in pieces") {
  for (std::int32_t length = 1; length <= 9; ++length) {
    for (const std::int32_t chunk : {2, 3, 4}) {
      CAPTURE(length);
      CAPTURE(chunk);
      text prompt;
      for (std::int32_t i = 0; i < length; ++i) { prompt.push_back((i * 2 + i / 3) % 3); }
      exact_case c{target_world, draft_world, {{prompt, ask(4)}}};
      c.options.chunk = chunk;
      run<3>(c);
      exact_plain(c, plain_sampler{}, verifier::rejection{});
      exact_case batch{target_world, draft_world, {{prompt, ask(2)}, {{1, 1}, ask(3)}}};
      batch.requests[1].options.seed = 9;
      batch.options.chunk = chunk;
      run<2>(batch);
    }
  }
}

TEST_CASE("a draft cache that runs full makes drafts shorter and nothing else") {
  for (std::int32_t capacity = 1; capacity <= 8; ++capacity) {
    CAPTURE(capacity);
    const exact_case c{target_world, draft_world, {{{2, 0, 1}, ask(4)}}};
    forking_source source;
    toy_target<> target{c.target};
    toy_draft<> draft{c.draft, capacity};
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<3>{}},
              selector::full{3},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{.chunk = 2},
              source};
    check_law(d, source, c);
    draft.cache().check();
  }
}

TEST_CASE("a target cache that runs full ends the text where it is full") {
  // With room for n tokens in the cache, n + 1 - prompt tokens can be emitted: the last is never
  // cached.
  for (std::int32_t capacity = 2; capacity <= 6; ++capacity) {
    CAPTURE(capacity);
    const exact_case c{target_world, draft_world, {{{2, 0}, ask(4)}}};
    const exact_case cut{target_world, draft_world, {{{2, 0}, ask(std::min(4, capacity - 1))}}};
    forking_source source;
    toy_target<> target{c.target, capacity};
    toy_draft<> draft{c.draft};
    decoder d{target,
              drafter::autoregressive{draft, tree::chain<3>{}},
              selector::full{3},
              plain_sampler{},
              verifier::rejection{},
              decoder_options{},
              source};
    const enumeration found = enumerate(d, source, c.requests);
    CHECK(distance(found.law, joint_law(c.target, cut.requests)) <= law_tolerance);
  }
}

TEST_CASE("a draft length that changes between steps, for one reason or another") {
  // Any rule that looks only at what is committed is exact; this one looks at the last token.
  const exact_case c{target_world, draft_world, {{{2, 1}, ask(4)}}};
  forking_source source;
  toy_target<> target{c.target};
  toy_draft<> draft{c.draft};
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<3>{}},
            selector::full{3},
            plain_sampler{},
            verifier::rejection{},
            decoder_options{},
            source};
  law_of_texts law;
  std::vector<text> texts;
  do {
    d.draft_length(1);
    run_requests(d, c.requests, texts, [&](const auto&) {
      d.draft_length(texts[0].empty() ? 1 : 2 * texts[0].back() % 4);
    });
    law[texts[0]] += source.probability();
  } while (source.next());
  CHECK(distance(law, joint_law(c.target, c.requests)) <= law_tolerance);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/enumerate.hpp"
#include "../support/toy_model.hpp"
#include "../support/toy_selector.hpp"

namespace hunch::test {

inline constexpr double law_tolerance = 1e-12;

using plain_sampler = sampler::pipeline<sampler::temperature>;
using top_k_sampler = sampler::pipeline<sampler::temperature, sampler::top_k>;
using top_p_sampler = sampler::pipeline<sampler::temperature, sampler::top_p>;
using full_sampler = sampler::pipeline<sampler::temperature, sampler::top_k, sampler::top_p>;

/// Options of a request of the exactness tests.
inline generation_options ask(std::int32_t length, float temperature = 1.0f, std::int32_t top_k = 0,
                              float top_p = 1.0f) {
  generation_options o;
  o.max_new_tokens = length;
  o.temperature = temperature;
  o.top_k = top_k;
  o.top_p = top_p;
  return o;
}

/// One exactness case: the worlds of target and draft, and what is asked.
struct exact_case {
  toy_world target;
  toy_world draft;
  std::vector<request> requests;
  decoder_options options = {};
  std::string (*bytes)(token) = nullptr;
};

/// One request of a prompt of two tokens, over laws of these kinds.
inline exact_case case_of(flavour target, flavour draft, std::int32_t vocab, std::int32_t length,
                          float temperature = 1.0f) {
  return {{vocab, 11, target}, {vocab, 12, draft}, {{{0, vocab - 1}, ask(length, temperature)}}};
}

/// A decoder of two models, by reference, that drafts chains of up to Length tokens over the full
/// vocabulary.
template <std::int32_t Length, class Target, class Draft, class S = plain_sampler,
          class V = verifier::rejection, class Random = random_source<>>
auto chain_decoder(Target& target, Draft& draft, S sampler = {}, V verifier = {},
                   decoder_options options = {}, Random random = {}) {
  return decoder{target,
                 drafter::autoregressive{draft, tree::chain<Length>{}},
                 selector::full{target.vocab_size()},
                 std::move(sampler),
                 std::move(verifier),
                 std::move(options),
                 std::move(random)};
}

/// Enumerates the decoder and compares with the autoregressive law.
template <class Decoder>
enumeration check_law(Decoder& decoder, const forking_source& source, const exact_case& c) {
  static_assert(Decoder::lossless);
  const enumeration found = enumerate(decoder, source, c.requests);
  CHECK(std::abs(found.total - 1.0) <= law_tolerance);
  CHECK(distance(found.law, joint_law(c.target, c.requests, c.bytes)) <= law_tolerance);
  return found;
}

inline std::int32_t batch_of(const exact_case& c) {
  return static_cast<std::int32_t>(c.requests.size());
}

template <class S, class V>
enumeration exact_plain(exact_case c, S, V) {
  forking_source source;
  toy_target<> target{c.target};
  c.options.max_batch = batch_of(c);
  decoder d{target, drafter::none{}, selector::full{c.target.vocab}, S{}, V{}, c.options, source};
  const enumeration found = check_law(d, source, c);
  target.cache().check();
  return found;
}

/// A chain of up to Length drafts, its head in the order of the selector's layout.
template <std::int32_t Length, class Selector, class S, class V>
enumeration exact_chain(exact_case c, Selector selector, S, V) {
  forking_source source;
  toy_target<> target{c.target};
  toy_draft<> draft{c.draft, selector.layout()};
  c.options.max_batch = batch_of(c);
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<Length>{}},
            std::move(selector),
            S{},
            V{},
            c.options,
            source};
  const enumeration found = check_law(d, source, c);
  target.cache().check();
  draft.cache().check();
  return found;
}

}  // namespace hunch::test

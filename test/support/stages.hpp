// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <hunch/decoder/generation.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/grammar.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include "hash.hpp"

/// \file
/// A sampler with every stage, and requests that use them.

namespace hunch::test {

using every_stage =
    sampler::pipeline<sampler::penalties, sampler::bias, sampler::allowed_tokens,
                      sampler::temperature, sampler::top_k, sampler::top_p, sampler::min_p>;

/// Never a token twice in a row, and token 0 only at even places of the text.
struct toy_grammar {
  std::int32_t vocab;

  struct state {
    token last = no_token;
    std::int32_t length = 0;
    bool dead = false;
  };
  static state start() { return {}; }
  static state advance(const state& s, token t) noexcept {
    return {t, s.length + 1, s.dead || !fits(s, t)};
  }
  void allowed(const state& s, std::uint32_t* words) const noexcept {
    for (std::int32_t w = 0; w < allowed_words(vocab); ++w) { words[w] = 0; }
    for (token t = 0; t < vocab; ++t) {
      if (!s.dead && fits(s, t)) { words[t / 32] |= 1u << (t % 32); }
    }
  }

  static bool fits(const state& s, token t) { return t != s.last && (t != 0 || s.length % 2 == 0); }
};
static_assert(Grammar<toy_grammar>);

/// A request that uses every stage but top-k.
inline generation_options with_every_stage(generation_options o, std::int32_t vocab) {
  o.repetition_penalty = 1.5f;
  o.presence_penalty = 0.7f;
  o.frequency_penalty = -0.6f;
  o.bias = {{1, 1.5f}, {vocab - 1, -2.0f}};
  o.grammar = toy_grammar{vocab};
  o.temperature = 0.8f;
  o.top_p = 0.95f;
  o.min_p = 0.05f;
  return o;
}

/// A request that uses some of the stages. At most one token is banned, so that in a vocabulary of
/// four or more there always is an allowed one.
inline generation_options with_some_stages(generation_options o, std::int32_t vocab, dice& random) {
  const auto value = [&] { return static_cast<float>(random.unit()); };
  if (random.below(2) == 0) { o.repetition_penalty = 0.5f + value(); }
  if (random.below(2) == 0) { o.presence_penalty = 2.0f * value() - 1.0f; }
  if (random.below(2) == 0) { o.frequency_penalty = 2.0f * value() - 1.0f; }
  if (random.below(2) == 0) {
    const token banned = random.below(vocab);
    o.bias = {{banned, -std::numeric_limits<float>::infinity()},
              {(banned + 1) % vocab, 2.0f * value()}};
  }
  if (random.below(2) == 0) { o.grammar = toy_grammar{vocab}; }
  if (random.below(2) == 0) { o.top_k = 1 + random.below(vocab); }
  if (random.below(2) == 0) { o.top_p = 1.0f - 0.5f * value(); }
  if (random.below(2) == 0) { o.min_p = 0.3f * value(); }
  return o;
}

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "../support/tree_drafter.hpp"
#include "exact.hpp"

/// \file
/// Single steps over trees of any shape, enumerated.

namespace hunch::test {

/// What a step emits, with its probability, and the expected number of its accepted tokens.
struct step_law {
  law_of_texts emitted;
  double accepted = 0.0;
  std::int64_t tapes = 0;
};

template <class Decoder>
step_law enumerate_step(Decoder& d, const forking_source& source, const request& asked) {
  step_law law;
  source.rewind();
  do {
    const request_id id = d.add(asked.prompt, asked.options);
    for (const emission& e : d.step()) {
      require(e.status != status::ok || !e.tokens.empty(), "a step without progress");
      text emitted(e.tokens.begin(), e.tokens.end());
      if (e.status != status::ok) { emitted.push_back(error_mark(e.status)); }
      law.emitted[emitted] += source.probability();
      law.accepted += source.probability() *
                      static_cast<double>(std::ranges::count(e.origins, origin::accepted));
    }
    d.cancel(id);
    ++law.tapes;
  } while (source.next());
  return law;
}

/// The law of whole texts if plain decoding continues what the step emitted.
inline law_of_texts continued(const step_law& step, const toy_world& world, const request& asked) {
  law_of_texts whole;
  for (const auto& [emitted, probability] : step.emitted) {
    if (ends_with_error(emitted)) {
      whole[emitted] += probability;
      continue;
    }
    for (const auto& [all, p] : autoregressive_law(world, asked.options, asked.prompt, emitted)) {
      whole[all] += probability * p;
    }
  }
  return whole;
}

struct tree_case {
  toy_world target;
  toy_world draft;
  request asked;
  std::vector<std::int32_t> shape;
};

/// The distance of the law of a step over what `drafter` drafts from plain decoding.
template <class Drafter, class Selector, class S, class V>
double drafted_gap(const tree_case& c, Drafter drafter, Selector selector, S sampler, V verifier,
                   step_law* result = nullptr) {
  forking_source source;
  toy_target<> target{c.target};
  decoder d{target,
            std::move(drafter),
            std::move(selector),
            std::move(sampler),
            std::move(verifier),
            decoder_options{},
            source};
  const step_law step = enumerate_step(d, source, c.asked);
  if (result != nullptr) { *result = step; }
  return distance(continued(step, c.target, c.asked), joint_law(c.target, {c.asked}));
}

/// The same over a tree.
template <child_law Children, class Selector, class S, class V>
double step_gap(const tree_case& c, Selector selector, S sampler, V verifier,
                step_law* result = nullptr) {
  return drafted_gap(c, tree_drafter<Children>{c.draft, c.shape}, std::move(selector), sampler,
                     verifier, result);
}

inline tree_case tree_of(flavour p, flavour q, std::int32_t vocab, std::int32_t length) {
  return {{vocab, 51, p}, {vocab, 52, q}, {{0, vocab - 1}, ask(length)}, {-1}};
}

}  // namespace hunch::test

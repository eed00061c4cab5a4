// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/drafter/lookup.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include <hunch/length/one_of.hpp>
#include <hunch/selector/any.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../support/drafter_makers.hpp"
#include "../support/hidden_host.hpp"
#include "../support/interval_source.hpp"
#include "../support/padded_grid_models.hpp"
#include "../support/recorded_rows.hpp"
#include "../support/stages.hpp"
#include "../support/stepping.hpp"
#include "../support/taught_meter.hpp"
#include "../support/toy_streams.hpp"
#include "exact.hpp"
#include "selectors.hpp"

/// \file
/// The grid: every composition of policies that claims to be lossless, by real drafters over toy
/// models, with rows that have a law and with rows that have none, against plain decoding: the
/// texts, the tokens in front of an error, and its status.

namespace hunch::test {

/// The runs of every row: the first is of sound rows, in the others those of the target, of the
/// draft or of both are damaged.
inline constexpr std::uint64_t grid_runs = 16;
inline exact_case grid_case(std::uint64_t run, const generation_options& options) {
  constexpr std::int32_t vocab = 3;
  constexpr flavour drafts[] = {flavour::sharp, flavour::smooth, flavour::masked};
  exact_case c{{vocab, 51, flavour::smooth}, {vocab, 52, drafts[run % 3]}, {{{0, 1, 0}, options}}};
  c.target.bad = run % 4 == 0 ? 0 : 100 + run;
  c.draft.bad = run == 0 || run % 4 == 1 ? 0 : 200 + run;
  if (run % 5 == 4) { c.requests[0].options.stop_tokens = {1}; }
  return c;
}

/// Allows some tokens after every text, and after one of five texts none.
struct dying_grammar {
  std::int32_t vocab;

  using state = std::uint64_t;
  static state start() { return 3; }
  static state advance(state s, token t) noexcept { return extend(s, t); }
  void allowed(state s, std::uint32_t* words) const noexcept {
    const std::uint64_t h = mix(s);
    words[0] = h % 5 == 0 ? 0u : (static_cast<std::uint32_t>(h >> 8) & 7u) | 1u << (h >> 16) % 3;
  }
};
static_assert(Grammar<dying_grammar>);

/// A request that uses every stage, under such a grammar.
inline generation_options staged(std::int32_t length = 4) {
  generation_options o = with_every_stage(ask(length), 3);
  o.grammar = dying_grammar{3};
  o.top_p = 0.99f;
  return o;
}

/// Whether the rows of a program are run by steps that their executor repeats, of which the host
/// reads nothing. These have no grammars.
#if defined(HUNCH_REPEATED)
inline constexpr bool repeated_grid = true;
#else
inline constexpr bool repeated_grid = false;
#endif

/// All that is decoded of a case by a decoder of a row, with its probabilities.
template <class Make, class Selector, class S, class V, class Source>
enumeration enumerate_row(const Make& make_drafter, const Selector& selector, S sampler, V verifier,
                          const exact_case& c, const Source& source) {
  grid_and_eagle models(c, selector.layout());
  const auto by = [&](auto& decoder, auto& of_steps) {
    static_assert(std::remove_reference_t<decltype(decoder)>::lossless,
                  "the grid is of lossless policies; the others are named in grid_test.cpp");
    static_cast<void>(&grid_entry<std::remove_reference_t<decltype(decoder)>, Selector>::recorded);
    const enumeration found = enumerate(of_steps, source, c.requests);
    models.target.cache().check();
    models.draft.cache().check();
    models.eagle.cache().check();
    return found;
  };
  if constexpr (repeated_grid) {
    constexpr std::int32_t chunk = 2;
    using drafter_type = std::remove_cvref_t<decltype(make_drafter(models))>;
    padded_grid_models padded(models, 1, drafter_type::max_nodes + chunk);
    resident_decoder d{padded.target,
                       make_drafter(padded),
                       selector::any<double, hidden_host>(selector),
                       sampler,
                       verifier,
                       resident_options{.max_length = 32, .chunk = chunk, .ring = 32},
                       source,
                       hidden_host{}};
    stepping<decltype(d)> steps{&d, {}, {}, {}};
    return by(d, steps);
  } else {
    decoder d{models.target,
              make_drafter(models),
              selector::any<double>(selector),
              sampler,
              verifier,
              c.options,
              source};
    return by(d, d);
  }
}

/// One row of the grid. \param make_drafter gives the drafter over `grid_models`.
template <class Make, class Selector, class S, class V>
void grid_row(const Make& make_drafter, const Selector& selector, S sampler, V verifier,
              generation_options options = ask(4)) {
  using source_type = std::conditional_t<V::shares_noise, interval_source, forking_source>;
  if (repeated_grid) { options.grammar = {}; }
  double failed = 0.0;   // probability of an error
  double written = 0.0;  // and of one that has tokens in front
  double steps = 0.0;
  double plain_steps = 0.0;  // those of plain decoding: one for each token or error
  for (std::uint64_t run = 0; run < grid_runs; ++run) {
    CAPTURE(run);
    const exact_case c = grid_case(run, options);
    source_type source;
    const enumeration found = enumerate_row(make_drafter, selector, sampler, verifier, c, source);
    CHECK(std::abs(found.total - 1.0) <= law_tolerance);
    CHECK(distance(found.law, joint_law(c.target, c.requests)) <= law_tolerance);
    steps += found.steps;
    for (const auto& [emitted, probability] : found.law) {
      plain_steps += probability * static_cast<double>(emitted.size());
      if (!ends_with_error(emitted)) { continue; }
      failed += probability;
      written += emitted.size() > 1 ? probability : 0.0;
    }
  }
  CHECK(failed > 0.1);
  CHECK(written > 0.1);
  // A law proves nothing about drafts of which none is accepted.
  constexpr bool drafts = decltype(make_drafter(std::declval<grid_and_eagle&>()))::max_nodes > 1;
  CHECK((steps < plain_steps - law_tolerance * plain_steps) == drafts);
}

/// The same over the full vocabulary.
template <class Make, class S, class V>
void grid_row(const Make& make_drafter, S sampler, V verifier,
              const generation_options& options = ask(4)) {
  grid_row(make_drafter, selector::full{3}, sampler, verifier, options);
}

/// Calls use(policy) with every length policy.
template <class Use>
void for_each_length_policy(const Use& use) {
  static constexpr double curve[] = {1.0, 1.1, 1.3, 1.6};
  const length::cost learning{
      .draft = 0.3, .rows = curve, .trust = 1.0, .decay = 0.5, .share = 10.0};
  use(length::fixed{2});
  use(length::entropy{0.4, 0.3});
  use(length::confidence{0.45});
  use(length::ewma{2, 0.5});
  use(learning);
  use(length::one_of<length::fixed, length::cost>{learning});
  if constexpr (!repeated_grid) {  // no loop that repeats itself reads a clock
    length::meter meter(2);
    teach(meter, 0.3, 0.1);
    use(length::metered{meter});
  }
}

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// The exact joint law of what ranks write that have parts of the vocabulary: of every rule, after
// every stage of a sampler, by enumeration of all random choices; all ranks come to the same.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/enumerate.hpp"
#include "../support/full.hpp"
#include "../support/stages.hpp"
#include "on_ranks.hpp"
#include "spread.hpp"

namespace hunch::test::shard_exact_test {
namespace {

constexpr double tolerance = 1e-12;
constexpr std::int32_t vocab = 3;

generation_options ask(std::int32_t length, float temperature = 1.0f) {
  generation_options o;
  o.max_new_tokens = length;
  o.temperature = temperature;
  return o;
}

/// A mutant: a residual whose weights each rank has divided by the sum of its own.
struct normalised_by_rank : ranked_source {
  template <Team T, class Weight>
  std::int64_t categorical(T& team, const address& a, std::int64_t n, const Weight& weight) const {
    if constexpr (team::spans_ranks<T>) {
      if (a.what == purpose::residual) {
        const double own = sum_of_held(team, weight);
        return ranked_source::categorical(team, a, n, [&](std::int64_t i) {
          return own > 0.0 ? static_cast<double>(weight(i)) / own : 0.0;
        });
      }
    }
    return ranked_source::categorical(team, a, n, weight);
  }

 protected:
  template <class T, class Weight>
  static double sum_of_held(T& team, const Weight& weight) {
    double sum = 0.0;
    for (std::int64_t i = team.held().begin; i < team.held().end; ++i) {
      sum += static_cast<double>(weight(i));
    }
    return sum;
  }
};

/// Another: the first rank that has any weight draws among what it holds.
struct drawn_by_local_sum : normalised_by_rank {
  template <Team T, class Weight>
  std::int64_t categorical(T& team, const address& a, std::int64_t n, const Weight& weight) const {
    if constexpr (team::spans_ranks<T>) {
      const std::int64_t none = std::numeric_limits<std::int64_t>::max();
      const std::int64_t own = sum_of_held(team, weight) > 0.0 ? team.held().begin : none;
      const std::int64_t first =
          team.merge(own, [](std::int64_t x, std::int64_t y) { return x < y ? x : y; });
      return ranked_source::categorical(team, a, n, [&](std::int64_t i) {
        return team.held().begin == first ? static_cast<double>(weight(i)) : 0.0;
      });
    } else {
      return ranked_source::categorical(team, a, n, weight);
    }
  }
};

/// The largest gap between what any rank writes and the autoregressive law.
template <class Source = ranked_source, class Shape, class S, class V>
double gap_of(std::int32_t eager_rows, const shard_bounds& bounds, flavour target_kind,
              flavour draft_kind, const generation_options& options, Shape, S, V,
              std::uint64_t bad = 0) {
  toy_world target_world{vocab, 31, target_kind};
  target_world.bad = bad;
  const toy_world draft_world{vocab, 32, draft_kind};
  const std::vector<token> prompt{0, vocab - 1};
  const law_of_texts expected = autoregressive_law(target_world, options, prompt);
  generation_options wide = options;
  for (logit_bias& b : wide.bias) { b.t *= spread; }
  const std::vector<request> requests{{{0, (vocab - 1) * spread}, wide}};
  const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
  std::vector<double> gaps(static_cast<std::size_t>(ranks), 1.0);
  const rank_ends ends = on_ranks(ranks, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    executor::sharded executor(c, shards);
    spread_model target(target_world, shards.tiles().held());
    spread_model draft(draft_world, {0, spread_vocab(vocab)});
    Source source;
    decoder d{target,
              drafter::autoregressive{full_logits{draft}, Shape{}},
              selector::full{spread_vocab(vocab)},
              S{},
              V{},
              decoder_options{.max_batch = 1, .eager_rows = eager_rows, .token_text = {}},
              source,
              executor};
    static_assert(decltype(d)::lossless);
    const enumeration found = enumerate(d, source, requests);
    CHECK(found.tapes > (S::always_greedy ? 0 : 1));
    CHECK(std::abs(found.total - 1.0) <= tolerance);
    gaps[static_cast<std::size_t>(c.rank())] = distance(narrowed(found.law), expected);
  });
  double largest = 0.0;
  for (const std::string& what : ends.what) { CHECK(what == ""); }
  for (const double of : gaps) { largest = of > largest ? of : largest; }
  return largest;
}

/// Of laws that are made when the rule asks for them, and of those that are made together.
template <class Source = ranked_source, class Shape, class S, class V>
double gap(const shard_bounds& bounds, flavour target_kind, flavour draft_kind,
           const generation_options& options, Shape shape, S s, V v, std::uint64_t bad = 0) {
  return std::max(gap_of<Source>(0, bounds, target_kind, draft_kind, options, shape, s, v, bad),
                  gap_of<Source>(1000, bounds, target_kind, draft_kind, options, shape, s, v, bad));
}

const std::vector<shard_bounds> divisions{
    {0, 4096, spread_vocab(vocab)},        // one token, then two
    {0, 8192, spread_vocab(vocab)},        // two, then one
    {0, 4096, 8192, spread_vocab(vocab)},  // one each
    {0, 0, 8192, spread_vocab(vocab)},     // a rank without any
};

using chain = tree::chain<2>;
using branches = tree::sampled<2, 1>;
using stage_temperature = sampler::pipeline<sampler::temperature>;

TEST_CASE("every rule on every division") {
  for (const shard_bounds& bounds : divisions) {
    CAPTURE(bounds.size());
    for (const flavour p : {flavour::smooth, flavour::masked}) {
      for (const flavour q : {flavour::smooth, flavour::sharp}) {
        if (q == flavour::sharp && !full_run()) { continue; }
        CAPTURE(static_cast<int>(p));
        const generation_options o = ask(3, 0.9f);
        const stage_temperature s;
        CHECK(gap(bounds, p, q, o, chain{}, s, verifier::rejection{}) <= tolerance);
        CHECK(gap(bounds, p, q, o, branches{}, s, verifier::rejection{}) <= tolerance);
        CHECK(gap(bounds, p, q, o, chain{}, s, verifier::block{}) <= tolerance);
        CHECK(gap_of(0, bounds, p, q, o, branches{}, s, verifier::point_mass{}) <= tolerance);
      }
    }
  }
}

TEST_CASE("greedy decoding, and drafts that are taken for certain") {
  for (const shard_bounds& bounds : divisions) {
    CAPTURE(bounds.size());
    const generation_options o = ask(4, 0.0f);
    CHECK(gap(bounds, flavour::tied, flavour::smooth, o, chain{}, sampler::greedy{},
              verifier::greedy{}) <= tolerance);
    CHECK(gap_of(0, bounds, flavour::smooth, flavour::smooth, o, branches{}, sampler::greedy{},
                 verifier::greedy{}) <= tolerance);
    CHECK(gap(bounds, flavour::smooth, flavour::masked, ask(3), chain{}, stage_temperature{},
              verifier::point_mass{}) <= tolerance);
  }
}

/// What a decoder writes with a seed, by noise that is shared.
template <class Executor, class D>
std::vector<token> coupled_text(const toy_world& world, team::element_range held,
                                const Executor& executor, D drafter, std::int32_t eager_rows,
                                std::uint64_t seed, std::int64_t* accepted = nullptr) {
  spread_model target(world, held);
  decoder d{target,
            std::move(drafter),
            selector::full{spread_vocab(vocab)},
            stage_temperature{},
            verifier::coupled{},
            decoder_options{.max_batch = 1, .eager_rows = eager_rows, .token_text = {}},
            random_source<>{},
            executor};
  generation_options o = ask(24, 0.8f);
  o.seed = seed;
  const std::vector<token> prompt{0, (vocab - 1) * spread};
  d.add(prompt, o);
  std::vector<token> out;
  while (d.running() > 0) {
    for (const emission& e : d.step()) { out.insert(out.end(), e.tokens.begin(), e.tokens.end()); }
  }
  if (accepted != nullptr) { *accepted += d.stats().accepted; }
  return out;
}

/// Noise is no choice that forks: the text is that of plain decoding, of each seed.
TEST_CASE("coupled drafts: the text of plain decoding on one rank") {
  const toy_world world{vocab, 31, flavour::smooth};
  const toy_world draft_world{vocab, 32, flavour::smooth};
  const team::element_range all{0, spread_vocab(vocab)};
  for (const shard_bounds& bounds : divisions) {
    CAPTURE(bounds.size());
    std::vector<std::int64_t> accepted(bounds.size() - 1);
    const rank_ends ends = on_ranks(static_cast<std::int32_t>(bounds.size()) - 1, [&](auto& c) {
      const vocab_shards shards = shards_of(c, bounds);
      executor::sharded executor(c, shards);
      spread_model draft(draft_world, all);
      for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const auto plain = coupled_text(world, all, executor::host{}, drafter::none{}, 0, seed);
        CHECK(plain.size() == 24);
        const auto over_ranks = [&](const auto& shape, std::int32_t eager_rows) {
          return coupled_text(world, shards.tiles().held(), executor,
                              drafter::autoregressive{full_logits{draft}, shape}, eager_rows, seed,
                              &accepted[static_cast<std::size_t>(c.rank())]);
        };
        for (const std::int32_t eager_rows : {0, 1000}) {
          CHECK(over_ranks(chain{}, eager_rows) == plain);
          CHECK(over_ranks(branches{}, eager_rows) == plain);
        }
      }
    });
    for (const std::string& what : ends.what) { CHECK(what == ""); }
    for (const std::int64_t n : accepted) { CHECK(n > 50); }
  }
}

/// What requests write, and the most exchanges of a step.
template <class Executor, class Exchanges>
std::vector<token> batch_text(const toy_world& world, const toy_world& draft_world,
                              team::element_range held, const Executor& executor,
                              const Exchanges& exchanges, std::int64_t* most) {
  spread_model target(world, held);
  spread_model draft(draft_world, {0, spread_vocab(vocab)});
  decoder d{target,
            drafter::autoregressive{full_logits{draft}, tree::chain<5>{}},
            selector::full{spread_vocab(vocab)},
            stage_temperature{},
            verifier::rejection{},
            decoder_options{.max_batch = 3, .token_text = {}},
            random_source<>{},
            executor};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    generation_options o = ask(20 + static_cast<std::int32_t>(seed), 0.8f);
    o.seed = seed;
    const std::vector<token> prompt{0, (vocab - 1) * spread};
    d.add(prompt, o);
  }
  std::vector<token> out;
  while (d.running() > 0) {
    const std::int64_t before = exchanges();
    for (const emission& e : d.step()) { out.insert(out.end(), e.tokens.begin(), e.tokens.end()); }
    *most = std::max(*most, exchanges() - before);
  }
  return out;
}

TEST_CASE("a step of chains takes three exchanges where there are to be few") {
  const toy_world world{vocab, 31, flavour::smooth};
  const toy_world draft_world{vocab, 32, flavour::smooth};
  std::int64_t none = 0;
  const std::vector<token> expected = batch_text(
      world, draft_world, {0, spread_vocab(vocab)}, executor::host{},
      [] { return std::int64_t(0); }, &none);
  CHECK(expected.size() == 21 + 22 + 23);
  const shard_bounds bounds{0, 4096, spread_vocab(vocab)};
  const rank_ends ends = on_ranks(2, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    for (const bool few : {false, true}) {
      executor::sharded executor(c, shards, {.few_exchanges = few});
      std::int64_t most = 0;
      CHECK(batch_text(
                world, draft_world, shards.tiles().held(), executor,
                [&] { return executor.traffic().exchanges; }, &most) == expected);
      CHECK((few ? most <= 3 : most > 3));
    }
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
}

TEST_CASE("every stage of a sampler") {
  for (const shard_bounds& bounds : divisions) {
    CAPTURE(bounds.size());
    generation_options o = ask(3, 0.8f);
    o.top_k = 2;
    CHECK(gap(bounds, flavour::tied, flavour::smooth, o, chain{}, every_stage{},
              verifier::rejection{}) <= tolerance);
    o.top_k = 0;
    o.top_p = 0.7f;
    CHECK(gap(bounds, flavour::smooth, flavour::smooth, o, branches{}, every_stage{},
              verifier::rejection{}) <= tolerance);
    o.top_p = 1.0f;
    o.min_p = 0.3f;
    o.repetition_penalty = 1.5f;
    o.presence_penalty = 0.4f;
    o.frequency_penalty = -0.3f;
    o.bias = {{1, 1.5f}, {vocab - 1, -1.0f}};
    CHECK(gap(bounds, flavour::smooth, flavour::smooth, o, chain{}, every_stage{},
              verifier::rejection{}) <= tolerance);
  }
}

TEST_CASE("rows that are bad on one rank end the text on all") {
  for (const shard_bounds& bounds : divisions) {
    CHECK(gap(bounds, flavour::smooth, flavour::smooth, ask(3), chain{}, stage_temperature{},
              verifier::rejection{}, 5) <= tolerance);
    CHECK(gap(bounds, flavour::smooth, flavour::smooth, ask(3), chain{}, stage_temperature{},
              verifier::block{}, 6) <= tolerance);
  }
}

TEST_CASE("draws that know only a part of the row are seen") {
  // A residual may lie on one rank: there is one of these that does not.
  const stage_temperature s;
  double by_rank = 0.0;
  double local = 0.0;
  for (const flavour p : {flavour::smooth, flavour::tied}) {
    for (const shard_bounds& bounds : {divisions[1], divisions[2]}) {
      const flavour q = flavour::sharp;
      by_rank = std::max(by_rank, gap<normalised_by_rank>(bounds, p, q, ask(3), chain{}, s,
                                                          verifier::rejection{}));
      local = std::max(
          local, gap<drawn_by_local_sum>(bounds, p, q, ask(3), chain{}, s, verifier::rejection{}));
    }
  }
  CHECK(by_rank > 1e-3);
  CHECK(local > 1e-3);
}

}  // namespace
}  // namespace hunch::test::shard_exact_test

// SPDX-License-Identifier: Apache-2.0

// The bodies that grow trees, by teams of threads: the same texts and drafts as by one thread. Run
// under ThreadSanitizer, too.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/team_executors.hpp"
#include "../support/toy_heads.hpp"
#include "../support/toy_model.hpp"
#include "../support/toy_streams.hpp"

namespace hunch::test::growth_test {
namespace {

constexpr std::int32_t vocab = 4103;  // two tiles, the second one almost empty
constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}};

using edited = sampler::pipeline<sampler::penalties, sampler::temperature>;

struct drafted {
  std::vector<token> tokens;
  std::int64_t nodes = 0;
  std::int64_t accepted = 0;

  friend bool operator==(const drafted&, const drafted&) = default;
};

/// Three requests in five slots, the second of which is left empty.
template <class Make, class V, class E>
drafted run(Make&& make, flavour kind, const V& verifier, E executor) {
  toy_stream_target<float> target{{vocab, 5, kind}};
  const selector::frequency<> shortlist{vocab_layout::identity(vocab), vocab};
  decoder d{target,
            make(kind, target),
            shortlist,
            edited{},
            verifier,
            decoder_options{.max_batch = 5, .chunk = 3, .token_text = {}},
            random_source<>{},
            executor};
  drafted out;
  generation_options options;
  options.max_new_tokens = 7;
  options.repetition_penalty = 1.2f;
  std::vector<request_id> ids;
  for (const std::uint64_t seed : {1u, 9u, 2u, 3u}) {
    options.seed = seed;
    std::vector<token> prompt{1, 2, static_cast<token>(seed)};
    if (seed == 2) { prompt.resize(8, 5); }  // of more than one chunk
    ids.push_back(d.add(prompt, options));
  }
  d.cancel(ids[1]);
  while (d.running() > 0) {
    for (const emission& e : d.step()) {
      out.tokens.insert(out.tokens.end(), e.tokens.begin(), e.tokens.end());
    }
  }
  out.nodes = d.stats().drafted;
  out.accepted = d.stats().accepted;
  return out;
}

template <class Tree, class V, class Policy = length::fixed>
void check(Tree tree, const V& verifier, Policy policy = {}) {
  threads team;
  team.blocks = 3;
  team.ranks = 8;
  // Few of these have ties, and many of those.
  for (const flavour kind : {flavour::sharp, flavour::tied}) {
    CAPTURE(static_cast<int>(kind));
    // The second time the model has no room for the longest text.
    std::int32_t room = no_limit;
    const auto model = [&](flavour f, auto&) {
      return drafter::autoregressive{toy_draft<float>{{vocab, 5, f}, room}, tree, policy};
    };
    const drafted alone = run(model, kind, verifier, executor::host{});
    CHECK(alone.nodes > 0);
    CHECK(alone == run(model, kind, verifier, team));
    room = 11;
    const drafted in_part = run(model, kind, verifier, executor::host{});
    CHECK(in_part.nodes < alone.nodes);
    CHECK(in_part == run(model, kind, verifier, team));
    const auto heads = [&](flavour f, auto&) {
      return drafter::heads{toy_heads<float>{{vocab, 5, f}, 2, vocab_layout::identity(vocab)}, tree,
                            policy};
    };
    const drafted ahead = run(heads, kind, verifier, executor::host{});
    CHECK(ahead.nodes > 0);
    CHECK(ahead == run(heads, kind, verifier, team));
  }
}

TEST_CASE("teams of threads prune the trees of one thread") {
  threads team;
  team.blocks = 3;
  team.ranks = 8;
  for (const flavour kind : {flavour::sharp, flavour::tied}) {
    const auto whole = [&](flavour f, auto&) {
      return drafter::streaming{
          toy_stream_head<float>{{vocab, 5, f}, 2, vocab_layout::identity(vocab)},
          tree::dynamic<3, 2, 9>{}};
    };
    const auto pruned = [&]<class Target>(flavour f, Target& target) {
      return drafter::pruned{
          whole(f, target),
          toy_view<Target, float>{target, {vocab, 5, f}, vocab_layout::identity(vocab)}, 4};
    };
    const drafted all = run(whole, kind, verifier::point_mass{}, executor::host{});
    const drafted alone = run(pruned, kind, verifier::point_mass{}, executor::host{});
    CHECK(alone.nodes > 0);
    CHECK(alone.nodes < all.nodes);
    CHECK(alone == run(pruned, kind, verifier::point_mass{}, team));
  }
}

TEST_CASE("teams of threads grow the trees of one thread") {
  check(tree::sampled<2, 2>{}, verifier::rejection{});
  check(tree::fixed<some>{}, verifier::point_mass{});
  check(tree::dynamic<3, 2, 6>{}, verifier::point_mass{});
  check(tree::dynamic<3, 2, 6>{}, verifier::point_mass{}, length::entropy{0.9, 0.3});
  check(tree::sampled<2, 2>{}, verifier::rejection{}, length::cost{.draft = 0.3, .trust = 0.5});
}

}  // namespace
}  // namespace hunch::test::growth_test

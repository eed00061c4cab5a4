// SPDX-License-Identifier: Apache-2.0

// How many launches a step takes: a fixed number, and so many for each level of a draft.

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/united.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/counting_host.hpp"
#include "../support/hidden_host.hpp"
#include "../support/padded_models.hpp"
#include "../support/toy_model.hpp"
#include "../support/toy_router.hpp"
#include "../support/toy_streams.hpp"

namespace hunch::test::launches_test {
namespace {

constexpr std::int32_t vocab = 61;
using plain = sampler::pipeline<sampler::temperature>;

vocab_layout clusters() {
  return vocab_layout::identity(vocab).clustered({2, 9, 16, 17, 30, 45, vocab});
}

auto routed() {
  static const toy_router weights(toy_context_size, 6, 7);
  return selector::clustered{clusters(), weights.view(), budget::fixed{3}};
}

/// The most launches of a step of three requests, of all steps that draft.
template <class Make, class Selector, class V>
std::int64_t most_launches(Make&& make, Selector selector, V verifier) {
  const counting<> executor;
  toy_stream_target<float> target{{vocab, 5, flavour::smooth}};
  decoder d{target,
            make(target, selector.layout()),
            selector,
            plain{},
            verifier,
            decoder_options{.max_batch = 3, .token_text = {}},
            random_source<>{},
            executor};
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    generation_options options;
    options.max_new_tokens = 60;
    options.seed = seed;
    d.add(std::vector<token>{1, 2, 1, 2, static_cast<token>(seed)}, options);
  }
  std::int64_t most = 0;
  std::int32_t seen = 0;
  while (d.running() > 0) {
    const executor_calls before = *executor.calls;
    d.step();
    if (d.last_step().drafted == 0) { continue; }
    most = std::max(most, (*executor.calls - before).launches);
    ++seen;
  }
  CHECK(seen > 3);
  return most;
}

TEST_CASE("launches of a step") {
  const auto goal = [](std::int32_t levels) { return 12 + 6 * levels; };
  const auto model = [](auto tree, auto policy) {
    return [=](auto&, const vocab_layout& layout) {
      return drafter::autoregressive{toy_draft<float>{{vocab, 6, flavour::smooth}, layout}, tree,
                                     policy};
    };
  };
  const selector::frequency<> frequent{vocab_layout::identity(vocab), 40};
  const auto chain =
      most_launches(model(tree::chain<5>{}, length::fixed{}), frequent, verifier::rejection{});
  MESSAGE("a chain of five by a model: " << chain);
  CHECK(chain <= goal(5));
  // Negative control: a chain of four has fewer, so that levels are what is counted.
  CHECK(most_launches(model(tree::chain<4>{}, length::fixed{}), frequent, verifier::rejection{}) ==
        chain - 6);

  const tree::dynamic<10, 6, 60> deep;
  const auto eagle = most_launches(model(deep, length::fixed{}), routed(), verifier::point_mass{});
  MESSAGE("a dynamic tree of 60 nodes over routed shortlists: " << eagle);
  CHECK(eagle <= goal(6));
  // A policy that learns launches nothing of its own; it may draft less.
  CHECK(most_launches(model(deep, length::cost{.draft = 0.01}), routed(), verifier::point_mass{}) <=
        eagle);
  // What makes one list of all that a depth was given is a launch for each level; so is a second
  // opinion, which is asked for when there are logits.
  CHECK(most_launches(model(deep, length::fixed{}), selector::united{routed(), 10},
                      verifier::point_mass{}) == eagle + 6);
  const auto drawn = model(tree::sampled<3, 2, 1>{}, length::fixed{});
  const auto routed_and_drawn = most_launches(drawn, routed(), verifier::rejection{});
  CHECK(routed_and_drawn <= goal(3));
  CHECK(most_launches(drawn, selector::second_opinion{routed(), 0.3}, verifier::rejection{}) ==
        routed_and_drawn + 3);

  const auto by_streams = [](auto&, const vocab_layout& layout) {
    return drafter::streaming{toy_stream_head<float>{{vocab, 7, flavour::smooth}, 3, layout},
                              tree::dynamic<3, 3, 9>{}};
  };
  const auto streams = most_launches(by_streams, frequent, verifier::point_mass{});
  MESSAGE("three streams: " << streams);
  CHECK(streams <= goal(3));
  const auto copied = most_launches([](auto&, const vocab_layout&) { return drafter::lookup<4>{}; },
                                    frequent, verifier::point_mass{});
  MESSAGE("four tokens by lookup: " << copied);
  CHECK(copied <= goal(0));
  // Two drafters that copy: the launches of one in `propose` and in `observe`, and three more.
  const auto twice = most_launches(
      [](auto&, const vocab_layout&) {
        return drafter::ensemble{drafter::lookup<4>{}, drafter::lookup<4>{}};
      },
      frequent, verifier::point_mass{});
  CHECK(twice == copied + 2 + 3);
  CHECK(most_launches(
            [&](auto& target, const vocab_layout& layout) {
              return drafter::ensemble{drafter::lookup<4>{}, by_streams(target, layout)};
            },
            frequent, verifier::point_mass{}) == streams + 2 + 3);
  // In turn: two more.
  CHECK(most_launches(
            [](auto&, const vocab_layout&) {
              return drafter::cascade{drafter::lookup<4>{}, drafter::lookup<4>{}};
            },
            frequent, verifier::point_mass{}) == copied + 2 + 2);
}

TEST_CASE("a step that nobody looks into has the launches of as many levels as may be drafted") {
  const auto launches_of = [](std::int32_t requests, std::int32_t length) {
    const counting<hidden_host> executor;
    const auto layout = vocab_layout::identity(vocab);
    toy_stream_target<float> target{{vocab, 5, flavour::smooth}};
    toy_draft<float> draft{{vocab, 6, flavour::smooth}, layout};
    padded_target<float> padded(target, 64, requests);
    resident_draft<float> drafts(draft);
    decoder d{padded,
              drafter::autoregressive{drafts, tree::chain<5>{}},
              selector::frequency<>{layout, 40},
              plain{},
              verifier::rejection{},
              decoder_options{.max_batch = requests,
                              .chunk = 8,
                              .draft_length = length,
                              .max_length = 64,
                              .token_text = {}},
              random_source<>{},
              executor};
    generation_options options;
    options.max_new_tokens = 40;
    for (std::int32_t i = 0; i < requests; ++i) { d.add(std::vector<token>{1, 2}, options); }
    d.step();
    const executor_calls before = *executor.calls;
    d.step();
    return (*executor.calls - before).launches;
  };
  CHECK(launches_of(2, 5) <= 12 + 6 * 5);
  CHECK(launches_of(2, 5) - launches_of(2, 2) == 3 * 6);
  CHECK(launches_of(2, 1) - launches_of(2, 0) >= 5);
  // Of a single request, what is done by slot is done in one launch, as far as it is in order: a
  // draw, and all that is between it and the next pass.
  CHECK(launches_of(1, 5) - launches_of(1, 2) == 3 * 2);
  CHECK(launches_of(1, 5) <= 8 + 2 * 5);
}

}  // namespace
}  // namespace hunch::test::launches_test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/selector/united.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../exact/selectors.hpp"
#include "enumerate.hpp"
#include "stages.hpp"

/// \file
/// The table of docs/policies/compositions.md: each drafter with each tree and each selector, by
/// toy models on the host, and by models of bodies on teams of threads and on a device.

namespace hunch::test::table {

inline constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};
using chain = tree::chain<3>;
using sampled_tree = tree::sampled<2, 1>;
using fixed_tree = tree::fixed<some>;
using deep_tree = tree::dynamic<2, 3, 7>;

/// What requests ask of the sampler.
enum class asked {
  little,
  every_stage,
  repetition,  ///< the same, of a text that repeats itself, so that what is copied is accepted
};

inline std::vector<request> requests_of(asked what) {
  std::vector<request> requests;
  for (std::int32_t n = 0; n < 20; ++n) {
    request r{{}, {}};
    r.options.max_new_tokens = 1 + 5 * n % 17;
    r.options.temperature = n % 4 == 3 ? 0.0f : 0.8f;
    for (std::int32_t t = 0; t <= 3 * n % 14; ++t) { r.prompt.push_back((7 * n + 3 * t) % 5); }
    r.options.seed = static_cast<std::uint64_t>(500 + n);
    if (n % 3 == 0) { r.options.stop_tokens = {3, 11, 20}; }
    if (what != asked::little) {
      r.options.top_k = n % 2 == 0 ? 10 : 0;
      r.options.top_p = 0.9f;
      r.options.repetition_penalty = 1.3f;
      r.options.presence_penalty = 0.2f;
      if (n % 2 == 1) { r.options.bias = {{5, 1.5f}, {6, -2.0f}}; }
    }
    if (what == asked::repetition) { r.options.bias = {{5, 12.0f}, {3, 12.0f}}; }
    requests.push_back(r);
  }
  return requests;
}

// Drafters over what has the models as members, by shape and length policy.
inline constexpr auto model = [](auto shape, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.draft, shape, policy}; };
};
inline constexpr auto eagle = [](auto shape, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.eagle, shape, policy}; };
};
inline constexpr auto early_exit = [](auto shape, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.view, shape, policy}; };
};
inline constexpr auto medusa = [](auto shape, auto policy) {
  return [=](auto& m) { return drafter::heads{m.heads, shape, policy}; };
};
inline constexpr auto streams = [](auto shape, auto policy) {
  return [=](auto& m) { return drafter::streaming{m.streams, shape, policy}; };
};
inline constexpr auto pruned_heads = [](auto shape, auto policy) {
  return [=](auto& m) {
    return drafter::pruned{drafter::heads{m.heads, shape, policy}, m.view, 3};
  };
};
inline constexpr auto pruned_streams = [](auto shape, auto policy) {
  return [=](auto& m) {
    return drafter::pruned{drafter::streaming{m.streams, shape, policy}, m.view, 3};
  };
};

/// Calls use(drafter, tree, make, sampler, verifier, asked) with the lines of a drafter that has
/// all trees.
template <class By, class Use>
void trees_of(const char* drafter, const By& by, Use&& use) {
  const length::fixed policy;
  use(drafter, "chain", by(chain{}, policy), plain_sampler{}, verifier::rejection{}, asked::little);
  use(drafter, "sampled", by(sampled_tree{}, policy), every_stage{}, verifier::rejection{},
      asked::every_stage);
  use(drafter, "fixed", by(fixed_tree{}, policy), plain_sampler{}, verifier::point_mass{},
      asked::little);
  use(drafter, "dynamic", by(deep_tree{}, policy), every_stage{}, verifier::coupled{},
      asked::every_stage);
}

template <class Use>
void trees_of_models(Use&& use) {
  trees_of("autoregressive: a model of its own", model, use);
  trees_of("autoregressive: a head that reads the target's features (EAGLE)", eagle, use);
  trees_of("autoregressive: the target's first layers", early_exit, use);
}
template <class Use>
void trees_ahead(Use&& use) {
  trees_of("heads (Medusa)", medusa, use);
  trees_of("streaming", streams, use);
}
template <class Use>
void pruned_trees(Use&& use) {
  const length::fixed policy;
  const auto with = [&](const char* drafter, const auto& by) {
    use(drafter, "fixed", by(fixed_tree{}, policy), plain_sampler{}, verifier::coupled{},
        asked::little);
    use(drafter, "dynamic", by(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{},
        asked::little);
  };
  with("pruned heads", pruned_heads);
  with("pruned streaming", pruned_streams);
}
/// And use(drafter, make, sampler, verifier, asked) with those that have neither tree nor head.
template <class Use>
void without_trees(Use&& use) {
  use(
      "lookup", [](auto&) { return drafter::lookup<3>{1}; }, every_stage{}, verifier::point_mass{},
      asked::repetition);
  use(
      "none", [](auto&) { return drafter::none{}; }, every_stage{}, verifier::rejection{},
      asked::every_stage);
}

template <class Use>
void for_each_line(Use&& use) {
  trees_of_models(use);
  trees_ahead(use);
  pruned_trees(use);
  without_trees(use);
}

/// Calls use(name, selector) with every selector but the full vocabulary.
/// \param router gives a router that reads the models' contexts, of so many clusters, on weights
///        that bodies reach.
template <class Router, class Use>
void for_each_shortlist(std::int32_t vocab, const Router& router, const Use& use) {
  const vocab_layout order = shuffled_layout(vocab, vocab);
  const auto clusters = [&](auto budget) {
    const std::int32_t rows = vocab - 3;
    return selector::clustered{
        shuffled_layout(vocab, rows)
            .clustered({2, rows / 4, rows / 2 - 2, rows / 2 - 1, rows - 7, rows}),
        router(5), budget};
  };
  use("frequency", selector::frequency{order, budget::position_aware{vocab}});
  use("trimmed", selector::trimmed{shuffled_layout(vocab, vocab - vocab / 4)});
  use("clustered", clusters(budget::position_aware{3}));
  use("clustered", clusters(budget::per_row{budget::rows{5, vocab / 2}}));
  use("united", selector::united{clusters(budget::fixed{1}), 4});
  use("second_opinion", selector::second_opinion{clusters(budget::fixed{2}), 0.7});
}

}  // namespace hunch::test::table

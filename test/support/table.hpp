// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/selector/second_opinion.hpp>
#include <hunch/selector/trimmed.hpp>
#include <hunch/selector/united.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/one_of.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../exact/selectors.hpp"
#include "drafter_makers.hpp"
#include "enumerate.hpp"
#include "stages.hpp"
#include "varied_requests.hpp"

/// \file
/// The table of docs/policies/compositions.md: each drafter with each tree and each selector, by
/// toy models on the host, and by models of bodies on teams of threads and on a device.

namespace hunch::test::table {

/// With a name of its own: nvcc 13 cannot spell choices in that of a kernel.
struct named_fixed : fixed_tree {};

/// What requests ask of the sampler.
enum class asked {
  little,
  every_stage,
  repetition,  ///< the same, of a text that repeats itself, so that what is copied is accepted
};

inline std::vector<request> requests_of(asked what) {
  std::vector<request> requests;
  for (std::int32_t n = 0; n < 20; ++n) {
    request r = varied_request(n, {.tokens = 5, .longest_prompt = 14, .longest_text = 17});
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

/// Calls use(drafter, tree, make, sampler, verifier, asked) with the lines of a drafter that has
/// all trees.
template <class By, class Use>
void trees_of(const char* drafter, const By& by, Use&& use) {
  const length::fixed policy;
  use(drafter, "chain", by(chain{}, policy), plain_sampler{}, verifier::rejection{}, asked::little);
  use(drafter, "sampled", by(sampled_tree{}, policy), every_stage{}, verifier::rejection{},
      asked::every_stage);
  use(drafter, "fixed", by(named_fixed{}, policy), plain_sampler{}, verifier::point_mass{},
      asked::little);
  use(drafter, "dynamic", by(deep_tree{}, policy), every_stage{}, verifier::coupled{},
      asked::every_stage);
}

template <class Use>
void trees_of_models(Use&& use) {
  trees_of("autoregressive: a model of its own", by_model, use);
  trees_of("autoregressive: a head that reads the target's features (EAGLE)", by_eagle, use);
  trees_of("autoregressive: the target's first layers", by_early_exit, use);
}
template <class Use>
void trees_ahead(Use&& use) {
  trees_of("heads (Medusa)", by_heads, use);
  trees_of("streaming", by_streams, use);
}
template <class Use>
void pruned_trees(Use&& use) {
  const length::fixed policy;
  const auto with = [&](const char* drafter, const auto& by) {
    use(drafter, "fixed", by(named_fixed{}, policy), plain_sampler{}, verifier::coupled{},
        asked::little);
    use(drafter, "dynamic", by(deep_tree{}, policy), plain_sampler{}, verifier::point_mass{},
        asked::little);
  };
  with("pruned heads", by_pruned_heads);
  with("pruned streaming", by_pruned_streams);
}
template <class Use>
void trees_in_turn(Use&& use) {
  const length::fixed policy;
  use("cascade: lookup, or a model of its own", "chain", by_lookup_or_model(chain{}, policy),
      every_stage{}, verifier::rejection{}, asked::repetition);
  use("cascade: lookup, or a model of its own", "dynamic", by_lookup_or_model(deep_tree{}, policy),
      every_stage{}, verifier::coupled{}, asked::repetition);
}
template <class Use>
void chosen_trees(Use&& use) {
  const length::fixed policy;
  use("one_of: a model of its own, chosen", "chain", by_one_of(chain{}, policy), every_stage{},
      verifier::one_of<verifier::rejection, verifier::block, verifier::coupled>(verifier::block{}),
      asked::every_stage);
}
template <class Use>
void merged_trees(Use&& use) {
  const length::fixed policy;
  use("ensemble: lookup, and a model of its own", "dynamic",
      by_lookup_and_model(deep_tree{}, policy), every_stage{}, verifier::point_mass{},
      asked::repetition);
  use("ensemble: streaming, and EAGLE", "fixed", by_streams_and_eagle(named_fixed{}, policy),
      plain_sampler{}, verifier::coupled{}, asked::little);
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
  merged_trees(use);
  trees_in_turn(use);
  chosen_trees(use);
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/lookup.hpp>

#include "generate/tree_shapes.hpp"

namespace generate {

/// What the text repeats and what a model drafts, in one tree of as many nodes as that of the model
/// alone. What followed a tail of four tokens or more takes the place of what the model expects
/// least; shorter tails are wrong too often.
template <class Model, class Policy>
auto merged_drafts(Model& model, Policy policy) {
  using namespace hunch::drafter;
  return ensemble{nodes<dynamic_shape::total>{}, lookup<max_draft_length, 8, Policy>{4, policy},
                  autoregressive{model, dynamic_shape{}, policy}};
}

/// What the text repeats, and a chain by a model where it repeats nothing.
template <class Model, class Policy>
auto copied_or_drafted(Model& model, Policy policy) {
  using namespace hunch::drafter;
  return cascade{lookup<chain_shape::max_depth, 8, Policy>{3, policy},
                 autoregressive{model, chain_shape{}, policy}};
}

}  // namespace generate

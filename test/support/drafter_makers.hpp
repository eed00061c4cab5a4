// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/one_of.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>

/// \file
/// Shapes of trees, and drafters over what has the models as members.

namespace hunch::test {

// Shapes.
inline constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}, {0, 2, 0}};
using chain = tree::chain<3>;
using sampled_tree = tree::sampled<2, 1>;
using fixed_tree = tree::fixed<some>;
using deep_tree = tree::dynamic<2, 3, 7>;

// Drafters by shape and length policy.
inline constexpr auto by_model = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.draft, tree, policy}; };
};
inline constexpr auto by_eagle = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.eagle, tree, policy}; };
};
inline constexpr auto by_early_exit = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::autoregressive{m.view, tree, policy}; };
};
inline constexpr auto by_heads = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::heads{m.heads, tree, policy}; };
};
inline constexpr auto by_streams = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::streaming{m.streams, tree, policy}; };
};
inline constexpr auto by_pruned_heads = [](auto tree, auto policy) {
  return [=](auto& m) { return drafter::pruned{drafter::heads{m.heads, tree, policy}, m.view, 3}; };
};
inline constexpr auto by_pruned_streams = [](auto tree, auto policy) {
  return [=](auto& m) {
    return drafter::pruned{drafter::streaming{m.streams, tree, policy}, m.view, 3};
  };
};
/// What is looked up, in one tree with what a model drafts; there is not always room for both.
inline constexpr auto by_lookup_and_model = [](auto tree, auto policy) {
  return [=](auto& m) {
    using model = decltype(drafter::autoregressive{m.draft, tree, policy});
    return drafter::ensemble{drafter::nodes<model::max_nodes + 1>{}, drafter::lookup<3>{1},
                             model{m.draft, tree, policy}};
  };
};
/// What is looked up, and what a model drafts where nothing is.
inline constexpr auto by_lookup_or_model = [](auto tree, auto policy) {
  return [=](auto& m) {
    return drafter::cascade{drafter::lookup<3>{1}, drafter::autoregressive{m.draft, tree, policy}};
  };
};
/// What a model drafts, where copies or heads could have been chosen.
inline constexpr auto by_one_of = [](auto tree, auto policy) {
  return [=](auto& m) {
    using model = decltype(drafter::autoregressive{m.draft, tree, policy});
    using heads = decltype(drafter::heads{m.heads, tree, policy});
    return drafter::one_of<drafter::lookup<3>, model, heads>(model{m.draft, tree, policy});
  };
};
inline constexpr auto by_streams_and_eagle = [](auto tree, auto policy) {
  return [=](auto& m) {
    return drafter::ensemble{drafter::streaming{m.streams, tree, policy},
                             drafter::autoregressive{m.eagle, deep_tree{}, policy}};
  };
};

}  // namespace hunch::test

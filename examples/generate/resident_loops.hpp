// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>

#include <engine/device/medusa.hpp>
#include <engine/device/streams.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/drafter/streaming.hpp>
#include <hunch/length/fixed.hpp>

#include "generate/combined_drafts.hpp"
#include "generate/resident.hpp"

namespace generate {
namespace detail {

template <class Model, class Tree>
auto drafter_of(Model& model, Tree tree) {
  return hunch::drafter::autoregressive{model, tree};
}
template <class Executor, class Multiply, class Tree>
auto drafter_of(engine::device_medusa<Executor, Multiply>& heads, Tree tree) {
  return hunch::drafter::heads{heads, tree};
}
template <class Executor, class Multiply, class Tree>
auto drafter_of(engine::device_streams<Executor, Multiply>& streams, Tree tree) {
  return hunch::drafter::streaming{streams, tree};
}

template <class Platform, class Tree>
auto drafter_of(pruned_streams<Platform>& of, Tree tree) {
  return hunch::drafter::pruned{hunch::drafter::streaming{of.streams, tree}, of.exit, of.keep};
}
template <class Head>
auto drafter_of(merged_head<Head>& of, dynamic_shape) {
  return merged_drafts(*of.head, hunch::length::fixed{});
}
template <class Model>
auto drafter_of(asked_second<Model>& of, chain_shape) {
  return copied_or_drafted(*of.model, hunch::length::fixed{});
}

}  // namespace detail

template <class Platform, class Drafts, class Tree>
loop_maker tree_loops<Platform, Drafts, Tree>::made(resident_program<Platform>& program,
                                                    const Drafts& drafts,
                                                    const any_selector& selector) {
  loop_maker out;
  std::visit(
      [&](auto* of) {
        const auto make = [of] { return detail::drafter_of(*of, Tree{}); };
        Platform::rules::template drafts<decltype(make())>(
            program.flags(), [&](auto sampler, auto verifier) {
              out = [&program, make, selector, sampler, verifier](std::int32_t length) {
                return program.loop_of(make, selector, sampler, verifier, length);
              };
            });
      },
      drafts);
  return out;
}

}  // namespace generate

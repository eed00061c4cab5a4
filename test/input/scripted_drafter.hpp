// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/drafter/drafter.hpp>

namespace hunch::test {

/// A drafter that proposes what it is told, wrong or not, with a law over a row that it is told.
template <child_law Children, bool IsChain>
struct scripted_tree {
  static constexpr std::int32_t max_nodes = 4;
  static constexpr child_law children = Children;
  static constexpr bool is_chain = IsChain;
  static constexpr bool uses_selector = false;
  static constexpr bool needs_hidden = false;

  std::vector<token> script;  ///< the tokens of nodes 1, 2, ...
  std::vector<double> row;    ///< the logits of every draft law; token t is its element t
  /// Of nodes 1, 2, ...; by default they are a chain.
  std::vector<std::int32_t> parents = {0, 1, 2};
  std::int32_t only_slot = 0;  ///< which sequence gets a draft

  template <class Real, class Executor>
  struct state {
    state(const scripted_tree&, Executor&, const drafter_setup& setup)
        : range{0, setup.vocab_size}, layout(setup.layout) {}
    row_range range;
    const vocab_layout* layout;
  };

  void check(const drafter_setup&) const {}

  template <class State, class Drafts, class Selector, class S, class... Rest>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector&, const S& sampler, Rest&&...) {
    for (std::int32_t k = 0; k < slots; ++k) {
      if (k != only_slot) { continue; }
      const auto tree = drafts.tree(k);
      const auto width = static_cast<std::int32_t>(row.size());
      for (std::size_t i = 0; i < script.size() && tree.depth(parents[i]) < contexts[k].max_depth;
           ++i) {
        const auto node = static_cast<std::int32_t>(i) + 1;
        team::serial team;
        tree.laws[node - 1] =
            sampler(team, row_view<double>{row.data(), width}, contexts[k].parameters, {});
        tree.lists[node - 1] = s.layout->list(&s.range, 1);
        tree.tokens[node] = script[i];
        tree.drawn_at[node] = std::clamp(script[i], 0, width - 1);
        drafts.grow(k, node, parents[i]);
      }
    }
  }

  template <class State, class E, class Executor>
  void observe(State&, const draft_outcomes&, E&, Executor&) noexcept {}
  template <class State, class Executor>
  void release(State&, std::int32_t, Executor&) noexcept {}
};

using scripted_drafter = scripted_tree<child_law::independent, true>;

static_assert(Drafter<scripted_drafter>);

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <hunch/drafter/drafter.hpp>

namespace hunch::test {

/// A drafter that proposes what it is told, wrong or not, with a law over a row that it is told.
struct scripted_drafter {
  static constexpr std::int32_t max_nodes = 4;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = true;
  static constexpr bool uses_selector = false;
  static constexpr bool needs_hidden = false;

  std::vector<token> script;   ///< the chain
  std::vector<double> row;     ///< the logits of every draft law; draft i is its element i
  std::int32_t only_slot = 0;  ///< which sequence gets a draft

  template <class Real, class Executor>
  struct state {
    state(Executor&, const drafter_setup& setup)
        : range{0, setup.vocab_size}, layout(setup.layout) {}
    row_range range;
    const vocab_layout* layout;
  };

  void check(const drafter_setup&) const {}

  template <class State, class Drafts, class Selector, class S, class... Rest>
  void propose(State& s, std::int32_t size, const draft_context* contexts, Drafts& drafts,
               Selector&, const S& sampler, Rest&&...) {
    for (std::int32_t k = 0; k < size; ++k) {
      if (contexts[k].slot != only_slot) { continue; }
      const auto tree = drafts.tree(k);
      const auto nodes = std::min(contexts[k].max_depth, static_cast<std::int32_t>(script.size()));
      for (std::int32_t i = 0; i < nodes; ++i) {
        team::serial team;
        const auto width = static_cast<std::int32_t>(row.size());
        tree.laws[i] =
            sampler(team, row_view<double>{row.data(), width}, contexts[k].parameters, {});
        tree.lists[i] = s.layout->list(&s.range, 1);
        tree.tokens[i + 1] = script[static_cast<std::size_t>(i)];
        tree.drawn_at[i + 1] = std::clamp(tree.tokens[i + 1], 0, width - 1);
        tree.parent[i + 1] = i;
      }
      drafts.count(k) = nodes + 1;
    }
  }

  template <class State, class E>
  void observe(State&, const draft_outcomes&, E&) noexcept {}
  template <class State>
  void release(State&, std::int32_t) noexcept {}
};

static_assert(Drafter<scripted_drafter>);

}  // namespace hunch::test

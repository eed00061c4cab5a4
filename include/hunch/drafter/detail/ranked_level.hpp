// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// Makes the most probable tokens of a row of logits the children of the node of a frontier, or of
/// all nodes where the row is common. One team for each row that was asked for.
template <class Growing, class S>
struct rank_level {
  Growing g;
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t ask) const {
    using real = typename Growing::real;
    using frontier_type = typename Growing::frontier_type;
    if (g.asks.row[ask] < 0) { return; }
    const std::int32_t slot = g.asks.slot[ask];
    const std::int32_t f = g.asks.leader[ask];
    const std::int32_t node = g.of.node(slot, f);
    const std::int32_t same = frontier_type::common ? g.of.sizes[slot] : 1;
    const frontier_type of = g.of;
    const draft_context& c = g.contexts[slot];
    const shortlist list = g.asks.lists[ask];
    const draft_tree<real> tree = g.trees.tree(slot);
    team::for_few(team, same, [=](std::int32_t i) { tree.lists[of.node(slot, f + i)] = list; });
    const std::int64_t child = of.first_child(slot, f);
    const std::int32_t asked =
        team::largest_of_few(team, same, [=](std::int32_t i) { return of.asked(slot, f + i); });
    kernel::rank_row(team, sampler,
                     kernel::ranked_row<real>{
                         .logits = g.asks.logits[ask],
                         .list = list,
                         .parameters = c.parameters,
                         .history = g.trees.history(slot, c, node, g.asks.lists + ask),
                         .value = of.values[of.in_tree(slot, node)],
                         .count = asked,
                         .best = g.asks.best + static_cast<std::int64_t>(ask) * g.asks.best_stride,
                         .ranked_by = g.asks.laws + ask,
                         .children = of.children + child,
                         .values = of.child_values + child});
    if constexpr (frontier_type::common) { copy_children(team, slot, same); }
    if constexpr (Growing::needs_entropy) {
      const double nats =
          kernel::entropy(team, kernel::law_at_temperature_one(team, g.asks.laws[ask]));
      team::for_few(team, same,
                    [=](std::int32_t i) { of.entropies[of.in_level(slot, f + i)] = nats; });
    }
  }

 private:
  /// Gives every node of the frontier the children of the one before it, with which it shares a
  /// row.
  template <Team T>
  HUNCH_HOST_DEVICE void copy_children(T& team, std::int32_t slot, std::int32_t size) const {
    const auto of = g.of;
    team::for_few(team, Growing::max_children, [=](std::int32_t i) {
      for (std::int32_t f = 1; f < size; ++f) {
        const std::int64_t from = of.first_child(slot, f - 1) + i;
        const std::int64_t to = of.first_child(slot, f) + i;
        const float own = of.values[of.in_tree(slot, of.node(slot, f))];
        const float value =
            of.child_values[from] + (own - of.values[of.in_tree(slot, of.node(slot, f - 1))]);
        of.children[to] = of.children[from];
        // Not above that of the node itself, not even by rounding: parents come before children.
        of.child_values[to] = own < value ? own : value;
      }
    });
  }
};

}  // namespace hunch::drafter

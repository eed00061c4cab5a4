// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/frontier.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/layout_tables.hpp>

namespace hunch::drafter {

/// The rows of logits that a level asks for, one after the other by slot and padding behind them;
/// `count` of them. A trivially copyable view.
template <class Real>
struct level_asks {
  std::int32_t* count = nullptr;   ///< [1]
  std::int32_t* slot = nullptr;    ///< [capacity]
  std::int32_t* leader = nullptr;  ///< node of the slot's frontier that it is for
  std::int32_t* row = nullptr;     ///< of the pass; -1: padding
  token* tokens = nullptr;         ///< of the node
  const float** states = nullptr;  ///< what the model knows of the row, if a selector asks
  row_range** ranges = nullptr;    ///< room for those of the shortlist
  std::int32_t* range_count = nullptr;
  shortlist* lists = nullptr;
  row_view<Real>* logits = nullptr;
  law<Real>* laws = nullptr;     ///< that ranked children are ranked by
  std::int64_t* best = nullptr;  ///< [capacity, best_stride] workspace of ranking
  std::int32_t best_stride = 0;
};

/// What the bodies that grow the trees of a step share. A trivially copyable view.
template <TreeShape Tree, LengthPolicy Policy, class Real, level_logits Logits>
struct growing {
  using frontier_type = drafter::frontier<Tree, Policy, Logits>;
  using tree_type = Tree;
  using real = Real;
  static constexpr std::int32_t max_children = Tree::max_children;
  static constexpr bool needs_entropy = frontier_type::looks && Policy::needs_entropy;

  frontier_type of;
  level_asks<Real> asks;
  slot_lengths<Policy> lengths;
  draft_trees<Real> trees;
  const draft_context* contexts = nullptr;  ///< [slots]
  std::int32_t slots = 0;
  std::int32_t depth = 0;  ///< of the frontier: 0 for roots

  /// Asks for what is known of a slot, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    of.ask_nearby(team, slot);
    lengths.ask_nearby(team, slot);
    trees.ask_nearby(team, slot);
    team::ask_nearby_of_each(team, slot, 1, contexts);
    constexpr std::int32_t each = frontier_type::common ? 1 : frontier_type::width;
    team::ask_nearby_of_each(team, slot * each, each, asks.slot, asks.leader, asks.row, asks.ranges,
                             asks.range_count, asks.lists, asks.logits);
  }

  /// Whether the sequence of a slot, which may draft, is to: if so, `of.add_root` follows. By one
  /// rank.
  HUNCH_HOST_DEVICE bool opens(std::int32_t slot) const {
    const std::int32_t allowed = contexts[slot].max_depth;
    return lengths.begin(slot, allowed < Tree::max_depth ? allowed : Tree::max_depth) > 0;
  }
  /// A step of a slot begins, in which nothing is drafted unless it `opens`. By one rank.
  HUNCH_HOST_DEVICE void begin(std::int32_t slot) const {
    of.clear(slot);
    lengths.begin(slot, 0);
  }
};

/// Asks for the rows of logits of the frontier of slot `slot`, and finds what the model knows of
/// the rows of its pass where it tells of all.
template <class Growing>
struct ask_level {
  Growing g;
  context_rows contexts;  ///< without data: nobody asks, or the host finds them

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    using frontier_type = typename Growing::frontier_type;
    team::list_by_slot(
        team,
        {.slot = slot,
         .slots = g.slots,
         .capacity = g.slots * (frontier_type::common ? 1 : frontier_type::width),
         .count = g.asks.count},
        [&](std::int32_t i) { return g.of.laws(i); },
        [&](std::int32_t at, std::int32_t f) {
          const std::int32_t node = g.of.node(slot, f);
          g.asks.slot[at] = slot;
          g.asks.leader[at] = f;
          // Rows of heads that look ahead lie one behind the other, by depth.
          g.asks.row[at] =
              g.of.rows[g.of.in_level(slot, f)] + (frontier_type::common ? g.depth : 0);
          g.asks.tokens[at] = g.trees.tree(slot).tokens[node];
          g.asks.ranges[at] = g.trees.ranges(slot, node);
          g.asks.logits[at].data = g.trees.logits(slot, g.of.law_row(slot, f));
          if (contexts.data != nullptr) {
            g.asks.states[at] = contexts.data + std::int64_t{g.asks.row[at]} * contexts.stride;
          }
        },
        [&](std::int32_t at) {
          g.asks.row[at] = -1;
          g.asks.ranges[at] = nullptr;
          if (contexts.data != nullptr) { g.asks.states[at] = nullptr; }
        });
  }
};

/// Makes the shortlist of row `ask` of the ranges that were chosen for it.
/// \tparam OneRange whether there is never more than one.
template <class Growing, bool OneRange>
struct list_level {
  Growing g;
  layout_view tables;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t ask) const {
    if (g.asks.row[ask] < 0) { return; }
    const row_range* const ranges = g.asks.ranges[ask];
    const std::int32_t count = g.asks.range_count[ask];
    shortlist list;
    if constexpr (OneRange) {
      if (team.rank() == 0) { list = tables.list_of_range(ranges, count); }
    } else {
      const std::int32_t slot = g.asks.slot[ask];
      list = tables.list(team, ranges, count,
                         g.trees.shifts(slot, g.of.node(slot, g.asks.leader[ask])));
    }
    if (team.rank() != 0) { return; }
    g.asks.lists[ask] = list;
    g.asks.logits[ask].size = list.size;
  }
};

}  // namespace hunch::drafter

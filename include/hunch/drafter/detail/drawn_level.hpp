// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/team/put_away.hpp>
#include <hunch/team/team.hpp>

namespace hunch::drafter {

/// Where one row of logits is for all nodes of a frontier: gives each a copy, for the stored law of
/// each is a view of its own. One team for each node of each row that was asked for.
template <class Growing>
struct copy_level {
  Growing g;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    constexpr std::int32_t width = Growing::frontier_type::width;
    const std::int32_t ask = index / width;
    const std::int32_t f = index % width;
    if (g.asks.row[ask] < 0) { return; }
    const std::int32_t slot = g.asks.slot[ask];
    if (f == 0 || f >= g.of.sizes[slot]) { return; }
    const row_view<typename Growing::real> from = g.asks.logits[ask];
    auto* const to = g.trees.logits(slot, g.of.law_row(slot, f));
    team.for_each(from.size, [=](std::int64_t i) { to[i] = from[i]; });
  }
};

/// Draws the children of a node of a frontier from its law, which is stored with the draft, and
/// says how sure the law is of them if somebody asks. One team for each row that was asked for;
/// where it is common, for each node.
/// \tparam Lent whether the model's own rows go with its next pass. If there is one before drafts
/// are verified, they are copied for the law, which is read again then.
template <class Growing, class S, class Draw, bool Lent = false>
struct draw_level {
  Growing g;
  S sampler;
  Draw draw;
  bool is_last = false;  ///< no pass of the model follows
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    using real = typename Growing::real;
    using frontier_type = typename Growing::frontier_type;
    constexpr bool common = frontier_type::common;
    const std::int32_t ask = common ? index / frontier_type::width : index;
    if (g.asks.row[ask] < 0) { return; }
    const std::int32_t slot = g.asks.slot[ask];
    const std::int32_t f = common ? index % frontier_type::width : g.asks.leader[ask];
    if (f >= g.of.sizes[slot]) { return; }
    const std::int32_t node = g.of.node(slot, f);
    const draft_context& c = g.contexts[slot];
    const draft_tree<real> tree = g.trees.tree(slot);
    const shortlist list = g.asks.lists[ask];
    if (team.rank() == 0) { tree.lists[node] = list; }
    const std::int64_t child = g.of.first_child(slot, f);
    const std::int32_t asked = g.of.asked(slot, f);
    row_view<real> logits = g.asks.logits[ask];
    if constexpr (common) {
      if (f > 0) { logits.data = g.trees.logits(slot, g.of.law_row(slot, f)); }
    }
    kernel::draw_row<Growing::max_children>(
        team, sampler, draw,
        kernel::draft_row<real>{.logits = logits,
                                .list = list,
                                .parameters = c.parameters,
                                .history = g.trees.history(slot, c, node, g.asks.lists + ask),
                                .where = {.seed = c.seed,
                                          .length = static_cast<std::uint32_t>(c.length),
                                          .node = static_cast<std::uint32_t>(node),
                                          .sibling = 0,
                                          .what = purpose::draft},
                                .position = static_cast<std::uint32_t>(c.length + g.depth),
                                .drawn_from = tree.laws + node,
                                .drawn_at = g.of.children_at + child,
                                .drawn = g.of.children + child,
                                .count = asked});
    if constexpr (frontier_type::looks) {
      team.sync();  // the law and the children are there for all ranks
      const law<real> l = kernel::law_at_temperature_one(team, tree.laws[node]);
      const frontier_type of = g.of;
      team.for_each(asked, [=](std::int64_t i) {
        const std::int32_t at = of.children_at[child + i];
        of.child_probabilities[child + i] =
            at >= 0 && l.status == status::ok ? static_cast<double>(l.prob(at)) : 0.0;
      });
      if constexpr (Growing::needs_entropy) {
        const double nats = kernel::entropy(team, l);
        if (team.rank() == 0) { of.entropies[of.in_level(slot, f)] = nats; }
      }
    }
    if constexpr (Lent) {
      real* const own = g.trees.logits(slot, g.of.law_row(slot, f));
      if (is_last || logits.data == own) { return; }
      team.sync();  // all ranks have read the law
      team::put_away(team, own, logits.data, logits.size);
      if (team.rank() == 0) { tree.laws[node].logits.data = own; }
    }
  }
};

}  // namespace hunch::drafter

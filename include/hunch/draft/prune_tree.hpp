// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/detail/ranking_law.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {
namespace kernel {

/// A node with children, and logits of what follows it, which the sampler may edit.
template <class Real>
struct transition_row {
  row_view<Real> logits;  ///< [list.size] over `list`
  shortlist list;
  sampling_parameters parameters;
  row_history history;  ///< its `list` points to the same one
  drafted_tokens tree;
  std::int32_t node = 0;
  float* transition = nullptr;  ///< [max_nodes] out, for the children: log2 P(child | node), -inf
                                ///< where that is 0; others are left as they are
};

/// How probable the children of the node of a row are, by the law that ranks children, see
/// `ranking_law`. A child that is not in the list, or of a row with an error, is not possible.
/// Collective.
template <class Real, class S, Team T>
HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void weigh_row(T& team, const S& sampler,
                                                        const transition_row<Real> row) {
  const law<Real> q = ranking_law(team, sampler, row.logits, row.parameters, row.history);
  team.for_each(row.tree.count - row.node - 1, [=](std::int64_t i) {
    const auto child = static_cast<std::int32_t>(row.node + 1 + i);
    if (row.tree.parent[child] != row.node) { return; }
    const std::int32_t at =
        q.status == status::ok ? row.list.position_of(row.tree.tokens[child]) : -1;
    row.transition[child] = at < 0 ? -infinity<float> : log2_probability(q.prob(at));
  });
}

/// Weighs the children of the node of row `index`, one team per row.
template <class Real, class S>
struct weigh_transitions {
  const transition_row<Real>* rows;  ///< [rows]
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr int loads = team::loads_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    weigh_row(team, sampler, rows[index]);
  }
};

/// A tree of which the best nodes stay. A view.
struct prunable_tree {
  std::int32_t keep = 0;              ///< nodes that stay at most, the root included; >= 1
  std::int32_t* count = nullptr;      ///< in and out
  token* tokens = nullptr;            ///< [max_nodes] in and out
  std::int32_t* parent = nullptr;     ///< [max_nodes] in and out
  float* value = nullptr;             ///< [max_nodes] in: log2 P(node | parent), at most 0, of all
                                      ///< but the root; out: of the path to a node as it was
  std::int32_t* was = nullptr;        ///< [max_nodes] out: what a node of the pruned tree was
  std::int64_t* workspace = nullptr;  ///< [max_nodes]
};

/// Keeps the root and the most probable paths: a node is worth the product of the probabilities on
/// the path to it, ties go to the node that comes first. No node is worth more than its parent,
/// which comes before it, so that with a node its ancestors stay. Impossible nodes do not. Nodes
/// stay in their order. One team per tree of at most `team::list_capacity` nodes. (Speculative
/// Streaming: Bhendawade et al. 2024, arXiv:2402.11131, its tree pruning)
struct prune_tree {
  const prunable_tree* trees;  ///< [trees]

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    of(team, trees[index]);
  }

  /// The same of a tree that a body has at hand.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void of(T& team, const prunable_tree t) const {
    const std::int32_t count = *t.count;
    if (team.rank() == 0) {  // few nodes, and each waits for its parent
      t.value[0] = 0.0f;
      for (std::int32_t node = 1; node < count; ++node) {
        t.value[node] += t.value[t.parent[node]];
      }
    }
    team.sync();
    team.fill(count, [=](std::int64_t i) { return ranked(t, i); });
    detail::put_largest(team, count, t.keep < count ? t.keep : count, t.workspace);
    if (team.rank() == 0) {
      std::int32_t kept = 0;
      while (kept < t.keep && kept < count && t.workspace[kept] != ranked_element::none) { ++kept; }
      compact(t, count, t.workspace[kept - 1]);
    }
    team.sync();
  }

 private:
  HUNCH_HOST_DEVICE static std::int64_t ranked(const prunable_tree& t, std::int64_t i) {
    return ranked_element::of(order<float>::of(t.value[i]), i);
  }

  /// Moves what is at least worth `least` to the front. A node goes to where it was or before, so
  /// that nothing is overwritten that is still to be read.
  HUNCH_HOST_DEVICE static void compact(const prunable_tree& t, std::int32_t count,
                                        std::int64_t least) {
    std::int32_t kept = 0;
    for (std::int32_t node = 0; node < count; ++node) {
      const std::int64_t mine = ranked(t, node);
      if (mine < least || mine == ranked_element::none) { continue; }
      t.workspace[node] = kept;
      t.was[kept] = node;
      t.tokens[kept] = t.tokens[node];
      t.parent[kept] = node == 0 ? -1 : static_cast<std::int32_t>(t.workspace[t.parent[node]]);
      ++kept;
    }
    *t.count = kept;
  }
};

}  // namespace kernel

/// Prunes `count` trees, see `kernel::prune_tree`, with trees[i] in memory of the executor.
/// Launches one body per tree and returns without waiting; allocates nothing.
template <Executor E>
void prune_trees(E& executor, std::int32_t count, const kernel::prunable_tree* trees) {
  executor.launch(count, kernel::prune_tree{trees});
}

}  // namespace hunch

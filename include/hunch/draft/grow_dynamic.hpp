// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/head/row_summary.hpp>
#include <hunch/head/summarise_rows.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// A tree that is grown by the value of its nodes, see `tree::dynamic`. While it grows, its nodes
/// are those that were drafted from; child r of node n is candidate n * top_k + r. A view.
struct dynamic_tree {
  std::int32_t top_k = 0;              ///< children of a node
  std::int32_t first = 0;              ///< the nodes [first, count) have the newest children
  std::int32_t* count = nullptr;       ///< nodes; out
  token* tokens = nullptr;             ///< [max_nodes] out
  std::int32_t* parent = nullptr;      ///< [max_nodes] out
  float* value = nullptr;              ///< [max_inner] of each node; out for new ones
  const token* child = nullptr;        ///< [max_inner * top_k] candidates, or `no_token`
  const float* child_value = nullptr;  ///< [max_inner * top_k] descending for each node, at most
                                       ///< its value
  std::int32_t* node_of = nullptr;     ///< [max_inner * top_k] the node of a candidate, -1: none
  std::int32_t* grown_as = nullptr;    ///< [max_nodes] out of `keep_best`: what a node of the tree
                                       ///< was while it grew, -1: only a candidate
  std::int32_t* kept_as = nullptr;     ///< [max_inner] workspace of `keep_best`
  std::int64_t* best = nullptr;        ///< [max(top_k, total - 1)] workspace

  /// Candidate c as a number: the most valuable has the greatest, the lower candidate on ties.
  HUNCH_HOST_DEVICE std::int64_t ranked(std::int64_t c) const {
    return child[c] == no_token ? ranked_element::none
                                : ranked_element::of(order<float>::of(child_value[c]), c);
  }
};

/// The `width` most valuable of the newest candidates of tree `index` become its nodes. One team
/// per tree. (EAGLE-2: Li et al. 2024, arXiv:2406.16858, its expansion)
struct expand_dynamic {
  const dynamic_tree* trees;  ///< [trees]
  std::int32_t width;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    of(team, trees[index]);
  }

  /// The same of a tree that a body has at hand.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void of(T& team, const dynamic_tree t) const {
    const std::int32_t count = *t.count;
    const std::int32_t begin = t.first * t.top_k;
    const std::int32_t candidates = (count - t.first) * t.top_k;
    team.for_each(candidates, [=](std::int64_t i) { t.node_of[begin + i] = -1; });
    team.fill(candidates, [=](std::int64_t i) { return t.ranked(begin + i); });
    detail::put_largest(team, candidates, width, t.best);
    const std::int32_t grown = team.reduce(
        width, std::int32_t(0),
        [=](std::int64_t i) { return t.best[i] == ranked_element::none ? 0 : 1; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    team.for_each(grown, [=](std::int64_t i) {
      const std::int32_t c = ranked_element::position(t.best[i]);
      const std::int32_t node = count + static_cast<std::int32_t>(i);
      t.tokens[node] = t.child[c];
      t.parent[node] = c / t.top_k;
      t.value[node] = t.child_value[c];
      t.node_of[c] = node;
    });
    if (team.rank() == 0) { *t.count = count + grown; }
  }
};

/// Makes of tree `index` what is verified: the root and the `keep` most valuable candidates of all
/// nodes [0, count), most valuable first. A parent has a lower candidate than its children and at
/// least their value, so it comes before them. One team per tree. (EAGLE-2, its re-ranking)
struct keep_best {
  const dynamic_tree* trees;  ///< [trees]
  std::int32_t keep;          ///< without the root

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    of(team, trees[index]);
  }

  /// The same of a tree that a body has at hand.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void of(T& team, const dynamic_tree t) const {
    const std::int32_t nodes = *t.count;
    const std::int32_t kept = choose(team, t, nodes);
    team.for_each(kept, [=](std::int64_t i) {
      const std::int32_t grown = t.node_of[ranked_element::position(t.best[i])];
      if (grown >= 0) { t.kept_as[grown] = static_cast<std::int32_t>(i) + 1; }
      t.grown_as[i + 1] = grown;
    });
    team.for_each(kept, [=](std::int64_t i) {
      const std::int32_t c = ranked_element::position(t.best[i]);
      const std::int32_t below = c / t.top_k;
      t.tokens[i + 1] = t.child[c];
      t.parent[i + 1] = below == 0 ? 0 : t.kept_as[below];
    });
    if (team.rank() == 0) {
      *t.count = kept + 1;
      t.grown_as[0] = 0;
    }
  }

 private:
  /// The most valuable candidates, in order, to `best`. Since the children of a node are in order,
  /// enough of the first of every node bound the last of them from below.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE std::int32_t choose(T& team, const dynamic_tree& t,
                                                               std::int32_t nodes) const {
    const std::int32_t all = nodes * t.top_k;
    const std::int32_t enough = (keep + nodes - 1) / nodes;
    const std::int32_t each = enough < t.top_k ? enough : t.top_k;
    std::int32_t candidates = nodes * each;
    team.fill(candidates, [=](std::int64_t i) { return t.ranked(i / each * t.top_k + i % each); });
    detail::put_largest(team, candidates, keep, t.best);
    if (each < t.top_k) {
      const std::int64_t least = t.best[keep - 1];
      candidates = team.compact(
          all,
          [=](std::int64_t c) {
            const std::int64_t ranked = t.ranked(c);
            return ranked >= least && ranked != ranked_element::none;
          },
          [=](std::int64_t c) { return t.ranked(c); }, team::list_capacity);
      team.sync();  // all ranks have read `least`: `compact` need not be a barrier
      detail::put_largest(team, candidates, keep, t.best);
    }
    return team.reduce(
        keep, std::int32_t(0),
        [=](std::int64_t i) { return t.best[i] == ranked_element::none ? 0 : 1; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
};

}  // namespace hunch::kernel

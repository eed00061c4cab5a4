// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/team.hpp>

/// \file
/// How the trees of several drafters become one, and what each is told of what was accepted.

namespace hunch::drafter {

/// The trees that have been merged so far, and which nodes of them a drafter's own tree has. A
/// trivially copyable view.
struct merged_trees {
  std::int32_t max_nodes = 0;  ///< of a tree, while it grows too
  std::int32_t room = 0;       ///< nodes of a merged tree at most
  std::int32_t max_batch = 0;
  std::int32_t* counts = nullptr;    ///< [max_batch]
  std::int32_t* refused = nullptr;   ///< [max_batch] as of `draft_trees`
  std::int32_t* computed = nullptr;  ///< [max_batch] levels that took a pass of a drafter
  token* tokens = nullptr;           ///< [max_batch, max_nodes]
  std::int32_t* parents = nullptr;   ///< [max_batch, max_nodes]
  shortlist* lists = nullptr;      ///< [max_batch, max_nodes] their sizes alone, for counters: the
                                   ///< ranges are in memory that the next drafter writes to; empty
                                   ///< after nodes from which nobody drafted by one
  std::int32_t* became = nullptr;  ///< [max_batch, max_nodes] of the tree that is being merged:
                                   ///< the merged nodes of its nodes; -1: there was no room
  std::int32_t* was = nullptr;     ///< [members, max_batch, max_nodes] the nodes of each drafter's
                                   ///< own tree that became merged nodes; -1: it has none

  /// Makes the arrays for so many drafters. \param arrays own what it points to.
  template <class Executor>
  void allocate(owned_arrays<Executor>& arrays, std::int32_t members) {
    const std::int64_t nodes = std::int64_t{max_batch} * max_nodes;
    arrays.give(max_batch, counts, refused, computed);
    arrays.give(nodes, tokens, parents, lists, became);
    arrays.give(members * nodes, was);
  }

  HUNCH_HOST_DEVICE std::int64_t in_tree(std::int32_t k) const {
    return static_cast<std::int64_t>(k) * max_nodes;
  }
  HUNCH_HOST_DEVICE drafted_tokens tree(std::int32_t k) const {
    return {.count = counts[k], .tokens = tokens + in_tree(k), .parent = parents + in_tree(k)};
  }
  /// [max_nodes] the nodes of a drafter's own tree.
  HUNCH_HOST_DEVICE std::int32_t* nodes_of(std::int32_t member, std::int32_t k) const {
    return was + in_tree(member * max_batch + k);
  }
};

/// Merges the tree that drafter `member` has grown for slot `k` with those of the drafters before
/// it: a node becomes the one that has the same tokens on the path to it, else a new one, as long
/// as there is room. What has no room goes with all that hangs on it. The next drafter finds the
/// root alone, and behind the last one the merged tree takes its place.
template <class Real>
struct merge_drafts {
  merged_trees merged;
  draft_trees<Real> trees;
  std::int32_t member;
  std::int32_t members;
  bool has_lists;  ///< whether the drafter has shortlists

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    if (team.rank() == 0) { merge(k); }
    team.sync();
    const drafted_tokens from = merged.tree(k);
    if (from.count == 0) { return; }
    if (member + 1 < members) {
      if (team.rank() == 0) { trees.plant(k, from.tokens[0]); }
      return;
    }
    const draft_tree<Real> tree = trees.tree(k);
    const shortlist* const lists = merged.lists + merged.in_tree(k);
    team::for_few(team, from.count, [=](std::int32_t node) {
      tree.tokens[node] = from.tokens[node];
      tree.parent[node] = from.parent[node];
      tree.lists[node] = lists[node];
    });
    if (team.rank() == 0) {
      trees.count(k) = from.count;
      trees.refused[k] = merged.refused[k];
      trees.computed[k] = merged.computed[k];
    }
  }

 private:
  /// By one rank: a node waits for its parent, and its siblings for it.
  HUNCH_HOST_DEVICE void merge(std::int32_t k) const {
    const draft_tree<Real> tree = trees.tree(k);
    drafted_tokens all = merged.tree(k);
    if (member == 0) {
      all.count = 0;
      merged.refused[k] = -1;
      merged.computed[k] = 0;
    }
    std::int32_t* const became = merged.became + merged.in_tree(k);
    shortlist* const lists = merged.lists + merged.in_tree(k);
    std::int32_t* const own = merged.nodes_of(member, k);
    for (std::int32_t node = 0; node < tree.count; ++node) {
      const std::int32_t above = node == 0 ? -1 : became[tree.parent[node]];
      const std::int32_t at =
          node > 0 && above < 0 ? -1 : place_of(k, all, tree.tokens[node], above);
      became[node] = at;
      if (at < 0) { continue; }
      if (own[at] < 0) { own[at] = node; }
      if (has_lists && above >= 0 && lists[above].size == 0) {
        lists[above].size = tree.lists[tree.parent[node]].size;
      }
    }
    merged.counts[k] = all.count;
    const std::int32_t computed = kernel::smaller(levels_of(tree), trees.computed[k]);
    merged.computed[k] = kernel::larger(merged.computed[k], computed);
    const std::int32_t refused = tree.count == 0 ? -1 : trees.refused[k];
    if (refused >= 0 && merged.refused[k] < 0) { merged.refused[k] = became[refused]; }
  }

  HUNCH_HOST_DEVICE static std::int32_t levels_of(const drafted_tokens& tree) {
    std::int32_t levels = 0;
    for (std::int32_t node = 1; node < tree.count; ++node) {
      levels = kernel::larger(levels, tree.depth(node));
    }
    return levels;
  }

  /// The node with token t below node `above`, or above all of them; a new one if there is none,
  /// and -1 if there is no room.
  HUNCH_HOST_DEVICE std::int32_t place_of(std::int32_t k, drafted_tokens& all, token t,
                                          std::int32_t above) const {
    if (above < 0 && all.count > 0) { return 0; }
    std::int32_t at = above < 0 ? -1 : all.next_child(above, above);
    while (at >= 0 && all.tokens[at] != t) { at = all.next_child(above, at); }
    if (at >= 0 || all.count >= merged.room) { return at; }
    at = all.count++;
    all.tokens[at] = t;
    all.parent[at] = above;
    merged.lists[merged.in_tree(k) + at] = {};
    for (std::int32_t m = 0; m < members; ++m) { merged.nodes_of(m, k)[at] = -1; }
    return at;
  }
};

/// Says for each drafter which nodes of its own tree of slot `k` were accepted: those on the
/// accepted path up to the first one that it has not drafted. The rest of the path is committed
/// text to it. What had no room was not refused either: only levels with a merged node were seen.
struct share_outcomes {
  merged_trees merged;
  std::int32_t members;
  draft_outcomes outcomes;
  draft_outcome* shares;  ///< [members, max_batch] out
  std::int32_t* paths;    ///< [members, max_batch, max_nodes] out

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t k) const {
    for (std::int32_t m = team.rank(); m < members; m += team.size()) {
      const std::int32_t* const own = merged.nodes_of(m, k);
      std::int32_t* const path = paths + merged.in_tree(m * merged.max_batch + k);
      draft_outcome share = outcomes.of[k];
      const std::int32_t accepted = share.kept;
      share.kept = 0;
      if (share.path != nullptr) {
        share.seen_levels = kernel::smaller(share.seen_levels, levels_of(own, k));
      }
      while (share.kept < accepted && own[share.path[share.kept]] >= 0) {
        path[share.kept] = own[share.path[share.kept]];
        ++share.kept;
      }
      if (share.path != nullptr) { share.path = path; }
      shares[m * merged.max_batch + k] = share;
    }
  }

 private:
  /// Levels of the merged tree in which a drafter has a node.
  HUNCH_HOST_DEVICE std::int32_t levels_of(const std::int32_t* own, std::int32_t k) const {
    const drafted_tokens tree = merged.tree(k);
    std::int32_t levels = 0;
    for (std::int32_t node = 1; node < tree.count; ++node) {
      if (own[node] < 0) { continue; }
      const std::int32_t depth = tree.depth(node);
      levels = depth > levels ? depth : levels;
    }
    return levels;
  }
};

}  // namespace hunch::drafter

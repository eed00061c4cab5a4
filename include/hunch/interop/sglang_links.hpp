// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/team/team.hpp>
#include <hunch/verifier/verifier.hpp>

/// \file
/// Trees of first-child and next-sibling links as the trees of a `verify_view`, and verdicts about
/// them in the outputs that SGLang's kernels write. See interop/sglang.hpp.

namespace hunch::interop::sglang {

/// The trees of a batch and where the verdicts go. All arrays are contiguous and lie in memory that
/// the executor's bodies reach; none may overlap another. All of them are read and written when the
/// bodies run, by every replay of a captured graph. Node 0 of a tree is the last token that was
/// emitted before.
struct linked_trees {
  std::int32_t batch = 0;
  std::int32_t nodes = 0;   ///< of a tree, the root included (`num_draft_tokens`)
  std::int32_t levels = 1;  ///< the root included (`num_speculative_tokens`); 1 or more, deeper
                            ///< nodes are not looked at
  std::int32_t slots = 0;   ///< elements of `predicts`, usually batch * nodes

  id_array candidates;                                  ///< [batch, nodes] tokens
  const std::int64_t* retrieve_index = nullptr;         ///< [batch, nodes] the slot of a node
  const std::int64_t* retrieve_next_token = nullptr;    ///< [batch, nodes] first child, -1: none
  const std::int64_t* retrieve_next_sibling = nullptr;  ///< [batch, nodes] -1: none

  id_output predicts;  ///< [slots] out: at the slots of the root and of accepted nodes the token
                       ///< after them; others are left as they are
  std::int32_t* accept_index = nullptr;      ///< [batch, levels] out: slots of the root and of
                                             ///< accepted nodes, then -1
  std::int32_t* accept_token_num = nullptr;  ///< [batch] out: accepted nodes, without the root
  hunch::status* status = nullptr;           ///< [batch] out, may be null
};

/// One such tree as the tree of a `verify_view`, for rules that walk down once from the root.
struct linked_tree {
  id_array tokens;
  const std::int64_t* next_token = nullptr;
  const std::int64_t* next_sibling = nullptr;
  const std::int32_t* accepted = nullptr;  ///< of the verdict: the level of the walk
  std::int32_t deepest = 0;                ///< the last level
  std::int32_t* steps_left = nullptr;  ///< each rank's own; links that run in a circle use it up

  HUNCH_HOST_DEVICE std::int32_t next_child(std::int32_t node, std::int32_t after) const {
    if (after == node && *accepted >= deepest) { return -1; }
    if (--*steps_left < 0) { return -1; }
    return static_cast<std::int32_t>(after == node ? next_token[node] : next_sibling[after]);
  }
};

/// The verdict about links that run in a circle: nothing that was accepted on the way stands.
HUNCH_HOST_DEVICE inline void no_tree(verdict& out) {
  out.status = status::invalid_draft;
  out.accepted = 0;
}

/// What the two rules have in common: sequence `row` of the batch.
struct tree_walk {
  linked_trees trees;
  std::int32_t row = 0;

  HUNCH_HOST_DEVICE std::int64_t at(std::int32_t node) const {
    return static_cast<std::int64_t>(row) * trees.nodes + node;
  }
  HUNCH_HOST_DEVICE linked_tree tree(const verdict& out, std::int32_t& steps_left) const {
    steps_left = 4 * trees.nodes;  // a rule sees a node at most twice as a child, twice as itself
    return {.tokens = trees.candidates.from(at(0)),
            .next_token = trees.retrieve_next_token + at(0),
            .next_sibling = trees.retrieve_next_sibling + at(0),
            .accepted = &out.accepted,
            .deepest = trees.levels - 1,
            .steps_left = &steps_left};
  }

  /// Whether links stay in the tree, ids of linked nodes in [0, limit), and slots in `predicts`.
  template <Team T>
  HUNCH_HOST_DEVICE hunch::status check(T& team, std::int64_t limit) const {
    enum : std::int32_t { fine, bad_id, bad_link };
    const tree_walk w = *this;
    const auto judge = [=](std::int64_t link) -> std::int32_t {
      if (link == -1) { return fine; }
      if (link < 1 || link >= w.trees.nodes) { return bad_link; }
      const std::int64_t where = w.at(static_cast<std::int32_t>(link));
      const std::int64_t slot = w.trees.retrieve_index[where];
      if (slot < 0 || slot >= w.trees.slots) { return bad_link; }
      const std::int64_t x = w.trees.candidates[where];
      return x < 0 || x >= limit ? bad_id : fine;
    };
    const std::int64_t root = trees.nodes > 0 ? trees.retrieve_index[at(0)] : -1;
    if (root < 0 || root >= trees.slots || trees.levels < 1) { return status::invalid_draft; }
    const std::int32_t worst = team.reduce(
        trees.nodes, std::int32_t(fine),
        [=](std::int64_t i) {
          const std::int64_t where = w.at(static_cast<std::int32_t>(i));
          const std::int32_t a = judge(w.trees.retrieve_next_token[where]);
          const std::int32_t b = judge(w.trees.retrieve_next_sibling[where]);
          return a > b ? a : b;
        },
        [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
    return worst == bad_link ? status::invalid_draft
           : worst == bad_id ? status::invalid_token
                             : status::ok;
  }

  /// Room for the path of a verdict.
  HUNCH_HOST_DEVICE std::int32_t* path() const {
    return trees.accept_index + static_cast<std::int64_t>(row) * trees.levels + 1;
  }

  /// Writes the verdict, whose path is in place: also that of an error, which has no next token.
  template <Team T>
  HUNCH_HOST_DEVICE void write(T& team, const verdict& out) const {
    team.sync();  // the path is there for all ranks
    const tree_walk w = *this;
    const bool valid = out.status == status::ok;
    const std::int32_t accepted = out.accepted;
    const token next = valid ? out.next : no_token;
    const std::int64_t root = trees.nodes > 0 ? trees.retrieve_index[at(0)] : -1;
    const bool has_root = root >= 0 && root < trees.slots;
    const auto slot_of = [=](std::int64_t i) {  // of the i-th node of the path, the root being 0
      return static_cast<std::int32_t>(i == 0 ? root
                                              : w.trees.retrieve_index[w.at(w.path()[i - 1])]);
    };
    if (has_root) {
      team.for_each(accepted + 1, [=](std::int64_t i) {
        w.trees.predicts.put(slot_of(i),
                             i < accepted ? w.trees.candidates[w.at(w.path()[i])] : next);
      });
    }
    team.for_each(trees.levels, [=](std::int64_t i) {
      w.path()[i - 1] = i <= accepted && has_root ? slot_of(i) : -1;
    });
    if (team.rank() == 0) { trees.accept_token_num[row] = accepted; }
    report(team, trees.status, row, out.status);
  }
};

}  // namespace hunch::interop::sglang

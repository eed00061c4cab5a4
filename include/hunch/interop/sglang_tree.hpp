// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/draft/tree_parents.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/interop/chain.hpp>
#include <hunch/team/team.hpp>

/// \file
/// From the choice of an EAGLE-2 drafter to a tree of links, attention mask and positions: the
/// tensors of SGLang's `build_tree_kernel_efficient`. See docs/interop.md.

namespace hunch::interop::sglang {

/// The form of the attention mask. Row i of a tree has a 1 for every node that node i attends to:
/// the root, its ancestors and itself.
enum class tree_mask_mode {
  full,          ///< one byte per cached token and node: [nodes, verified_seq_len + nodes] for each
                 ///< sequence, one after the other; cached tokens are all 1
  query_only,    ///< one byte per node: [batch, nodes, nodes]
  query_packed,  ///< one bit per node, the root lowest: [batch, nodes] of 1, 2 or 4 bytes, low byte
                 ///< first; for at most 8, 16 or 32 nodes
};

/// Bytes of a row of a packed mask, or 0 if so many nodes do not fit.
HUNCH_HOST_DEVICE constexpr std::int32_t packed_mask_bytes(std::int32_t nodes) {
  return nodes <= 8 ? 1 : nodes <= 16 ? 2 : nodes <= 32 ? 4 : 0;
}

/// The arguments of `build_tree_kernel_efficient`. All arrays are contiguous and lie in memory that
/// the executor's bodies reach; none may overlap another.
///
/// Candidates are numbered level by level: 0, ..., topk - 1 are the children of the root; then each
/// of the topk nodes that were expanded at a level has topk children, so that candidate s hangs on
/// expansion s / topk. Expansion 0 is the root, and `parent_list` says which candidate the others
/// expand.
struct build_tree_arguments {
  std::int32_t batch = 0;
  std::int32_t topk = 1;   ///< children of a node that is expanded
  std::int32_t depth = 1;  ///< levels below the root (`spec_steps`)
  std::int32_t nodes = 1;  ///< of a tree, the root included (`draft_token_num`)
  tree_mask_mode mask_mode = tree_mask_mode::full;

  const std::int64_t* parent_list = nullptr;       ///< [batch, topk * (depth - 1) + 1] candidates;
                                                   ///< the first of a row is not read
  const std::int64_t* selected_index = nullptr;    ///< [batch, nodes - 1] candidates, ascending
  const std::int64_t* verified_seq_len = nullptr;  ///< [batch] cached tokens, 0 or more

  std::uint8_t* tree_mask = nullptr;              ///< out, see `tree_mask_mode`; written whole
  std::int64_t* positions = nullptr;              ///< [batch, nodes] out: in the text
  std::int64_t* retrieve_index = nullptr;         ///< [batch, nodes] out: batch row * nodes + node
  std::int64_t* retrieve_next_token = nullptr;    ///< [batch, nodes] out: first child or -1
  std::int64_t* retrieve_next_sibling = nullptr;  ///< [batch, nodes] out: next sibling or -1
  hunch::status* status = nullptr;                ///< [batch] out, may be null
};

/// Builds the tree of sequence `row`. One team per sequence.
struct build_tree_body {
  build_tree_arguments args;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t row) const {
    const std::int64_t cached = args.verified_seq_len[row];
    const bool fits =
        args.mask_mode != tree_mask_mode::query_packed || packed_mask_bytes(args.nodes) > 0;
    if (!fits || args.topk < 1 || args.depth < 1 || args.nodes < 1 || cached < 0) {
      return report(team, args.status, row, status::invalid_parameter);
    }
    const build_tree_body self = *this;
    const std::int64_t first = static_cast<std::int64_t>(row) * args.nodes;
    // The links of the result hold the parents until the links themselves are made.
    std::int64_t* const parent = args.retrieve_next_sibling + first;
    team.for_each(args.nodes, [=](std::int64_t node) {
      parent[node] = self.parent_of(row, static_cast<std::int32_t>(node));
      self.args.retrieve_index[first + node] = first + node;
      self.args.retrieve_next_token[first + node] = -1;
    });
    const std::int64_t mask_row =
        args.mask_mode == tree_mask_mode::full ? cached + args.nodes : args.nodes;
    std::uint8_t* const mask = args.tree_mask + mask_offset(team, row);
    const bool strays = kernel::has_strays(team, parent, args.nodes);
    if (args.mask_mode == tree_mask_mode::full) {
      team.for_each(cached * args.nodes,
                    [=](std::int64_t i) { mask[i / cached * mask_row + i % cached] = 1; });
    }
    team.for_each(args.nodes, [=](std::int64_t node) {
      const std::int64_t level =
          self.args.mask_mode == tree_mask_mode::query_packed
              ? self.mark_bits(parent, node, mask)
              : self.mark_bytes(parent, node, mask + node * mask_row + mask_row - self.args.nodes);
      self.args.positions[first + node] = cached + level;
    });
    if (team.rank() == 0) {
      kernel::link_nodes(args.nodes, parent, args.retrieve_next_token + first, parent);
    }
    report(team, args.status, row, strays ? status::invalid_draft : status::ok);
  }

 private:
  /// The node that a node hangs on; -1 for the root, and for a node whose parent is not there.
  HUNCH_HOST_DEVICE std::int32_t parent_of(std::int32_t row, std::int32_t node) const {
    if (node == 0) { return -1; }
    const std::int64_t* const selected =
        args.selected_index + static_cast<std::int64_t>(row) * (args.nodes - 1);
    const std::int64_t expansions = static_cast<std::int64_t>(args.topk) * (args.depth - 1) + 1;
    const std::int64_t s = selected[node - 1];
    if (s < 0 || s / args.topk >= expansions) { return -1; }
    if (s / args.topk == 0) { return 0; }
    const std::int64_t wanted = args.parent_list[row * expansions + s / args.topk];
    // Only nodes before this one: candidates ascend, and so no chain of parents can be a circle.
    for (std::int32_t other = 1; other < node; ++other) {
      if (selected[other - 1] == wanted) { return other; }
    }
    return -1;
  }

  /// Where the masks of a sequence begin.
  template <Team T>
  HUNCH_HOST_DEVICE std::int64_t mask_offset(T& team, std::int32_t row) const {
    const std::int64_t nodes = args.nodes;
    if (args.mask_mode == tree_mask_mode::query_packed) {
      return row * nodes * packed_mask_bytes(args.nodes);
    }
    if (args.mask_mode == tree_mask_mode::query_only) { return row * nodes * nodes; }
    const std::int64_t* const lengths = args.verified_seq_len;
    const std::int64_t before = team.reduce(
        row, std::int64_t(0), [=](std::int64_t i) { return lengths[i]; },
        [](std::int64_t a, std::int64_t b) { return a + b; });
    return (before + row * nodes) * nodes;
  }

  /// Both return the level of the node.
  HUNCH_HOST_DEVICE std::int64_t mark_bytes(const std::int64_t* parent, std::int64_t node,
                                            std::uint8_t* bytes) const {
    for (std::int32_t i = 0; i < args.nodes; ++i) { bytes[i] = i == 0 ? 1 : 0; }
    std::int64_t level = 0;
    for (std::int64_t up = node; up > 0; up = kernel::node_above(parent, up), ++level) {
      bytes[up] = 1;
    }
    return level;
  }
  HUNCH_HOST_DEVICE std::int64_t mark_bits(const std::int64_t* parent, std::int64_t node,
                                           std::uint8_t* mask) const {
    std::int64_t up = node;
    std::int64_t level = 0;
    const std::uint32_t bits = kernel::ancestor_bits(parent, 0, up, level);
    const std::int32_t bytes = packed_mask_bytes(args.nodes);
    for (std::int32_t b = 0; b < bytes; ++b) {
      mask[node * bytes + b] = static_cast<std::uint8_t>(bits >> (8 * b));
    }
    return level;
  }
};

/// Builds the trees of a batch: parents, links, mask and positions. Integers only, no randomness.
/// (The trees of EAGLE-2: Li et al. 2024, arXiv:2406.16858)
///
/// A node whose parent is not among the selected candidates gets no link, and the sequence has the
/// status `invalid_draft`; the rest of its tree is valid. Where `nodes` does not fit a packed mask,
/// topk, depth or `nodes` is below 1, or a length is negative, nothing is written but
/// `invalid_parameter`. Launches one body per sequence and returns without waiting; allocates
/// nothing.
template <Executor E>
void build_tree_kernel_efficient(E& executor, const build_tree_arguments& args) {
  executor.launch(args.batch, build_tree_body{args});
}

}  // namespace hunch::interop::sglang

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/tree_parents.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// Words of a row of an attention mask over the nodes of a tree.
HUNCH_HOST_DEVICE constexpr std::int32_t mask_words(std::int32_t nodes) {
  return (nodes + 31) / 32;
}

/// Where masks go: memory that the executor's bodies reach. No array may overlap another.
struct ancestor_mask_arguments {
  tree_parents trees;
  /// [batch, nodes, mask_words(nodes)] out: bit i of word w of a node's row is 1 if the node
  /// attends to node 32 w + i, that is to the root, its ancestors and itself. 0 for nodes that are
  /// not there.
  std::uint32_t* masks = nullptr;
  std::int32_t* levels = nullptr;   ///< [batch, nodes] out: 0 for the root; may be null
  hunch::status* status = nullptr;  ///< [batch] out, may be null
};

namespace kernel {

/// Word `word` of the mask of a node, in a walk up from it that goes from word to word, the last
/// one first. `at` is where the walk is, `level` counts its steps.
template <class Index>
HUNCH_HOST_DEVICE HUNCH_INLINE std::uint32_t ancestor_bits(const Index* parent, std::int32_t word,
                                                           Index& at, Index& level) {
  const Index first = static_cast<Index>(word) * 32;
  std::uint32_t bits = word == 0 ? 1 : 0;
  for (; at > 0 && at >= first; at = node_above(parent, at), ++level) {
    bits |= std::uint32_t(1) << (at - first);
  }
  return bits;
}

/// The masks of a tree. One team per tree.
struct mark_ancestors {
  ancestor_mask_arguments args;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t* const parent = args.trees.of(index);
    const std::int32_t count = args.trees.count(index);
    const std::int64_t first = args.trees.first(index);
    const std::int32_t words = mask_words(args.trees.nodes);
    const ancestor_mask_arguments to = args;
    team.for_each(args.trees.nodes, [=](std::int64_t i) {
      std::uint32_t* const row = to.masks + (first + i) * words;
      std::int32_t at = static_cast<std::int32_t>(i);
      std::int32_t level = 0;
      for (std::int32_t w = words - 1; w >= 0; --w) {
        row[w] = i < count ? ancestor_bits(parent, w, at, level) : 0;
      }
      if (to.levels != nullptr) { to.levels[first + i] = level; }
    });
    if (args.status == nullptr) { return; }
    const bool strays = has_strays(team, parent, count);
    if (team.rank() == 0) { args.status[index] = strays ? status::invalid_draft : status::ok; }
  }
};

}  // namespace kernel

/// The attention masks of a batch of trees of any number of nodes, as bits. Integers only, no
/// randomness.
///
/// A node whose parent does not come before it attends to the root and itself, and its tree has the
/// status `invalid_draft`. Launches one body per tree and returns without waiting; allocates
/// nothing.
template <Executor E>
void ancestor_masks(E& executor, const ancestor_mask_arguments& args) {
  executor.launch(args.trees.batch, kernel::mark_ancestors{args});
}

}  // namespace hunch

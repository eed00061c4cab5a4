// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch::kernel {

/// Gives the nodes of a tree the union of their lists, if there are at most `width` of them. The
/// team of a tree's first node does; one team per node.
struct unite_lists {
  selector_contexts contexts;
  selector_lists lists;
  std::int32_t width;
  row_range* sorted;  ///< [nodes, each] workspace
  std::int32_t each;  ///< ranges of a list before

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t first) const {
    if (lists.ranges[first] == nullptr) { return; }
    if (first > 0 && contexts.tree_of(first - 1) == contexts.tree_of(first)) { return; }
    std::int32_t end = first + 1;
    while (end < contexts.size && lists.ranges[end] != nullptr &&
           contexts.tree_of(end) == contexts.tree_of(first)) {
      ++end;
    }
    const std::int32_t nodes = end - first;
    if (nodes == 1 || nodes > width) { return; }
    const unite_lists self = *this;
    row_range* const all = sorted + static_cast<std::int64_t>(first) * each;
    const std::int32_t total = team.reduce(
        nodes, std::int32_t(0), [=](std::int64_t i) { return self.lists.counts[first + i]; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    team.for_each(static_cast<std::int64_t>(nodes) * each, [=](std::int64_t k) {
      const auto node = static_cast<std::int32_t>(k / self.each);
      const auto r = static_cast<std::int32_t>(k % self.each);
      if (r >= self.lists.counts[first + node]) { return; }
      const row_range mine = self.lists.ranges[first + node][r];
      std::int32_t before = r;
      for (std::int32_t other = 0; other < nodes; ++other) {
        if (other != node) {
          before += self.ranges_before(first + other, mine.begin, other < node);
        }
      }
      all[before] = mine;
    });
    std::int32_t count = 0;
    row_range* const out = lists.ranges[first];
    if (team.rank() == 0) {
      for (std::int32_t k = 0; k < total; ++k) {
        const row_range range = all[k];
        if (count > 0 && range.begin <= out[count - 1].end) {
          if (out[count - 1].end < range.end) { out[count - 1].end = range.end; }
        } else {
          out[count++] = range;
        }
      }
    }
    count = team.broadcast(count, 0);
    team.sync();  // the union is there for all ranks
    team.for_each(nodes, [=](std::int64_t i) {
      self.lists.counts[first + i] = count;
      row_range* const to = self.lists.ranges[first + i];
      for (std::int32_t r = 0; i > 0 && r < count; ++r) { to[r] = out[r]; }
    });
  }

 private:
  /// Ranges of a node that begin before a row; those that begin there, too, if `also_there`.
  HUNCH_HOST_DEVICE std::int32_t ranges_before(std::int32_t node, std::int32_t row,
                                               bool also_there) const {
    const row_range* const of = lists.ranges[node];
    std::int32_t low = 0;
    std::int32_t high = lists.counts[node];
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      const bool before = also_there ? of[middle].begin <= row : of[middle].begin < row;
      if (before) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

}  // namespace hunch::kernel

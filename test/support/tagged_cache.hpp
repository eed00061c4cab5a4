// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/branch_plan.hpp>

namespace hunch::test {

/// A cache whose cells have ids of sequences and are written as a row is computed, as llama.cpp
/// keeps it: a row attends to the cells of its first id up to its position.
struct tagged_cache {
  struct cell {
    token t;
    std::int32_t position;
    std::set<std::int32_t> sequences;
  };
  std::vector<cell> cells;

  void apply(const cache_edit& e) {
    for (cell& c : cells) {
      if (e.removes()) {
        if (c.position >= e.first) { c.sequences.erase(e.sequence); }
      } else if (c.position >= e.first && c.position < e.last && c.sequences.contains(e.source)) {
        c.sequences.insert(e.sequence);
      }
    }
    std::erase_if(cells, [](const cell& c) { return c.sequences.empty(); });
  }
  /// What a row of this sequence attends to. \throws std::logic_error if a sequence has two cells
  /// at a position, or leaves one out.
  std::vector<token> of(std::int32_t sequence) const {
    std::vector<cell> found;
    for (const cell& c : cells) {
      if (c.sequences.contains(sequence)) { found.push_back(c); }
    }
    std::sort(found.begin(), found.end(),
              [](const cell& a, const cell& b) { return a.position < b.position; });
    std::vector<token> result;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].position != static_cast<std::int32_t>(i)) {
        throw std::logic_error("a sequence whose positions do not follow each other");
      }
      result.push_back(found[i].t);
    }
    return result;
  }
};

}  // namespace hunch::test

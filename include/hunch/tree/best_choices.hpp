// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <hunch/core/message.hpp>

/// \file
/// Trees of fixed shape from measured acceptance: set-up, on the host.

namespace hunch::tree {

/// A node as the ranks on its way from the root: {0, 2} is the third best child of the best child.
using path = std::vector<std::int32_t>;

/// acceptance[depth][rank]: how often the token of that rank at that depth is right where its path
/// is. Depth 0 is that of the children of the root.
using acceptance_table = std::span<const std::vector<double>>;

/// The probability that the whole path of a node is right: the product along it. Nothing looks
/// whether the table has the node's depths and ranks.
inline double value_of(const path& node, acceptance_table acceptance) {
  double value = 1.0;
  for (std::size_t depth = 0; depth < node.size(); ++depth) {
    value *= acceptance[depth][static_cast<std::size_t>(node[depth])];
  }
  return value;
}

/// Tokens per step of a tree of these nodes, if acceptance is what the table says: the next token
/// and one for each node whose path is right.
inline double expected_tokens(std::span<const path> nodes, acceptance_table acceptance) {
  double tokens = 1.0;
  for (const path& node : nodes) { tokens += value_of(node, acceptance); }
  return tokens;
}

/// The tree of `count` nodes, without the root, that brings most tokens per step: the nodes of the
/// largest values. A node is not worth more than its parent, so these hang together. Ties go to the
/// shallower node, then to the lower ranks. In the order of depths, then of ranks.
///
/// The greedy choice of Medusa (Cai et al. 2024, arXiv:2401.10774); for this table the best tree,
/// as in Sequoia (Chen et al. 2024, arXiv:2402.12374).
///
/// \param acceptance [depths][ranks] of any numbers of ranks.
/// \throws std::invalid_argument if a probability is not in [0, 1], or if there are not so many
/// nodes.
inline std::vector<path> best_choices(acceptance_table acceptance, std::int32_t count) {
  for (const std::vector<double>& depth : acceptance) {
    for (const double p : depth) {
      if (!(p >= 0.0 && p <= 1.0)) {
        throw std::invalid_argument(
            message({"hunch::tree::best_choices: an acceptance of ", p, " is no probability"}));
      }
    }
  }
  struct candidate {
    double value = 1.0;
    path node;
  };
  const auto shape_before = [](const path& a, const path& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  };
  const auto worse = [&](const candidate& a, const candidate& b) {
    return a.value != b.value ? a.value < b.value : shape_before(b.node, a.node);
  };
  std::priority_queue<candidate, std::vector<candidate>, decltype(worse)> open(worse);
  const auto open_children = [&](const candidate& parent) {
    const std::size_t depth = parent.node.size();
    if (depth == acceptance.size()) { return; }
    const auto ranks = static_cast<std::int32_t>(acceptance[depth].size());
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      candidate child = parent;
      child.value *= acceptance[depth][static_cast<std::size_t>(rank)];
      child.node.push_back(rank);
      open.push(std::move(child));
    }
  };
  std::vector<path> chosen;
  open_children({});
  while (static_cast<std::int32_t>(chosen.size()) < count) {
    if (open.empty()) {
      throw std::invalid_argument(
          message({"hunch::tree::best_choices: ", count, " nodes are wanted, and the table has ",
                   chosen.size()}));
    }
    const candidate best = open.top();
    open.pop();
    chosen.push_back(best.node);
    open_children(best);
  }
  std::ranges::sort(chosen, shape_before);
  return chosen;
}

/// The nodes as C++ writes them: "{{0}, {1}, {0, 0}}".
inline std::string literal_of(std::span<const path> nodes) {
  std::string text = "{";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    text += i == 0 ? "{" : ", {";
    for (std::size_t depth = 0; depth < nodes[i].size(); ++depth) {
      text += (depth == 0 ? "" : ", ") + std::to_string(nodes[i][depth]);
    }
    text += "}";
  }
  return text + "}";
}

}  // namespace hunch::tree

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/head/row_summary.hpp>
#include <hunch/tree/shape.hpp>

namespace hunch::tree {

/// The nodes of a fixed tree as paths of ranks: {0, 2} is the third most probable child of the most
/// probable child of the root. A compile-time constant:
///
///     constexpr hunch::tree::choices mine{{0}, {1}, {0, 0}, {0, 1}};
///
/// \tparam Nodes without the root.
template <std::int32_t Nodes>
struct choices {
  static constexpr std::int32_t nodes = Nodes;

  std::int32_t parent[Nodes];  ///< 0: the root; n: node n - 1 of this list
  std::int32_t rank[Nodes];    ///< among the children of the parent
  std::int32_t depth[Nodes];   ///< of children of the root 1

  /// Does not compile if the path to a node is not in the list before it, or a node is in it twice.
  template <std::int32_t... Lengths>
  consteval choices(const std::int32_t (&... paths)[Lengths]) : parent{}, rank{}, depth{} {
    std::int32_t node = 0;
    (add(node++, paths, Lengths), ...);
  }

  /// The node below `parent` with a rank, or -1. Nodes count from 1; 0 is the root.
  constexpr std::int32_t find(std::int32_t below, std::int32_t at) const {
    for (std::int32_t i = 0; i < Nodes; ++i) {
      if (depth[i] > 0 && parent[i] == below && rank[i] == at) { return i + 1; }
    }
    return -1;
  }
  /// Children that node `below` has to be asked for: the highest rank among them and one.
  constexpr std::int32_t asked(std::int32_t below) const {
    std::int32_t most = 0;
    for (std::int32_t i = 0; i < Nodes; ++i) {
      if (parent[i] == below) { most = std::max(most, rank[i] + 1); }
    }
    return most;
  }
  /// The most nodes at one depth that are drafted from.
  constexpr std::int32_t width() const {
    std::int32_t widest = 1;
    for (std::int32_t level = 1; level <= levels(); ++level) {
      std::int32_t here = 0;
      for (std::int32_t i = 0; i < Nodes; ++i) {
        here += depth[i] == level && asked(i + 1) > 0 ? 1 : 0;
      }
      widest = std::max(widest, here);
    }
    return widest;
  }
  constexpr std::int32_t levels() const { return *std::max_element(depth, depth + Nodes); }

 private:
  consteval void add(std::int32_t node, const std::int32_t* path, std::int32_t length) {
    std::int32_t at = 0;
    for (std::int32_t i = 0; i + 1 < length; ++i) {
      at = find(at, path[i]);
      if (at < 0) { throw "hunch: tree::choices: the path to a node comes before the node"; }
    }
    if (path[length - 1] < 0 || find(at, path[length - 1]) >= 0) {
      throw "hunch: tree::choices: a rank below 0, or a node that is there already";
    }
    parent[node] = at;
    rank[node] = path[length - 1];
    depth[node] = length;
  }
};

template <std::int32_t... Lengths>
choices(const std::int32_t (&... paths)[Lengths])
    -> choices<static_cast<std::int32_t>(sizeof...(Lengths))>;

/// The same tree in every step: its nodes are named by their rank among the most probable tokens of
/// their parent's law (Medusa: Cai et al. 2024, arXiv:2401.10774). `best_choices` finds good ones.
/// Laws are taken at temperature 1, without cuts: what is ranked is never drawn. Ranked children:
/// exact by any rule that needs no draft law, at any temperature.
/// \tparam Choices a `tree::choices`.
template <choices Choices>
struct fixed {
 private:
  struct plan {
    std::int32_t asked[Choices.nodes + 1];
    std::int32_t inner = 0;
    std::int32_t most = 0;
  };
  static constexpr plan made = [] {
    plan p{};
    for (std::int32_t node = 0; node <= Choices.nodes; ++node) {
      p.asked[node] = Choices.asked(node);
      p.inner += p.asked[node] > 0 ? 1 : 0;
      p.most = std::max(p.most, p.asked[node]);
    }
    return p;
  }();
  static_assert(made.most <= max_ranked_children, "hunch: tree::fixed: ranks are below 32");

 public:
  static constexpr std::int32_t max_nodes = Choices.nodes + 1;
  static constexpr std::int32_t max_inner = made.inner;
  static constexpr std::int32_t max_depth = Choices.levels();
  static constexpr std::int32_t max_width = Choices.width();
  static constexpr std::int32_t max_children = made.most;
  static constexpr child_law children = child_law::ranked;
  static constexpr bool is_chain = max_nodes == max_depth + 1;

  /// The place of a node is its number in the list, from 1.
  static constexpr std::int32_t asked(std::int32_t place) { return made.asked[place]; }
  static constexpr std::int32_t child(std::int32_t place, std::int32_t i) {
    return Choices.find(place, i);
  }
};

namespace detail {
inline constexpr choices two_deep{{0}, {0, 0}};
}
static_assert(TreeShape<fixed<detail::two_deep>>);

}  // namespace hunch::tree

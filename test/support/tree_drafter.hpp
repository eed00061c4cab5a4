// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <hunch/draft/draw_children.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/selector/selector.hpp>
#include "hash.hpp"
#include "toy_world.hpp"

namespace hunch::test {

/// Drafts trees of a given shape from a toy world, without a model or a cache: the law at a node is
/// that world's law after the node's text. Children come about as the template argument says.
template <child_law Children, std::int32_t MaxNodes = 5>
struct tree_drafter {
  static constexpr std::int32_t max_nodes = MaxNodes;
  static constexpr child_law children = Children;
  static constexpr bool is_chain = false;
  static constexpr bool uses_selector = true;
  static constexpr bool needs_hidden = false;

  toy_world world;
  std::vector<std::int32_t> shape;  ///< the parent of each node; -1 for the root

  template <class Real, class Executor>
  struct state {
    state(const tree_drafter&, Executor&, const drafter_setup& setup) : layout(setup.layout) {}
    const vocab_layout* layout;
  };

  void check(const drafter_setup&) const {}

  template <class State, class Drafts, class Selector, class S, class Draw, class Executor>
  void propose(State& s, std::int32_t slots, const draft_context* contexts, Drafts& drafts,
               Selector& selector, const S& sampler, const Draw& draw, Executor&) {
    for (std::int32_t k = 0; k < slots; ++k) {
      const draft_context& c = contexts[k];
      if (c.length == 0) { continue; }
      const auto tree = drafts.tree(k);
      std::vector<std::int32_t> node_of(shape.size(),
                                        -1);  // in the tree, of each node of the shape
      node_of[0] = 0;
      std::vector<std::int32_t> tried(shape.size(), 0);  // children that a node was asked for
      std::vector<bool> listed(shape.size(), false);     // nodes that have a shortlist
      for (std::size_t i = 1; i < shape.size(); ++i) {
        const auto above = static_cast<std::size_t>(shape[i]);
        const std::int32_t parent = node_of[above];
        if (parent < 0) { continue; }
        const drafted_tokens so_far{drafts.count(k), tree.tokens, tree.parent, tree.drawn_at};
        if (so_far.depth(parent) >= c.max_depth) { continue; }
        if (tried[above] == 0) {
          if (!listed[static_cast<std::size_t>(parent)]) {
            choose_lists(s, k, c, drafts, so_far, selector, so_far.depth(parent), listed);
          }
          make_law(k, c, drafts, so_far, sampler, parent);
        }
        const std::int32_t node = drafts.count(k);
        const std::int32_t at = child(so_far, c, tree, draw, parent, tried[above]++);
        if (at < 0) { continue; }
        tree.drawn_at[node] = at;
        tree.tokens[node] = tree.lists[parent].token_at(at);
        drafts.grow(k, node, parent);
        node_of[i] = node;
      }
    }
  }

  template <class State, class E, class Executor>
  void observe(State&, const draft_outcomes&, E&, Executor&) noexcept {}
  template <class State, class Executor>
  void release(State&, std::int32_t, Executor&) noexcept {}

 private:
  /// The shortlists of all nodes at a depth that have none yet: a frontier of the tree.
  template <class State, class Drafts, class Selector>
  void choose_lists(State& s, std::int32_t k, const draft_context& c, Drafts& drafts,
                    const drafted_tokens& tokens, Selector& selector, std::int32_t depth,
                    std::vector<bool>& listed) const {
    const auto tree = drafts.tree(k);
    std::vector<std::int32_t> nodes;
    for (std::int32_t node = 0; node < tokens.count; ++node) {
      if (tokens.depth(node) == depth && !listed[static_cast<std::size_t>(node)]) {
        nodes.push_back(node);
      }
    }
    const std::size_t size = nodes.size();
    std::vector<row_range*> ranges;
    std::vector<std::int32_t> counts(size), trees(size, k);
    std::vector<token> read;
    std::vector<float> numbers(size * static_cast<std::size_t>(toy_context_size));
    std::vector<const float*> known;
    for (std::size_t i = 0; i < size; ++i) {
      ranges.push_back(drafts.ranges(k, nodes[i]));
      read.push_back(tree.tokens[nodes[i]]);
      float* const of = numbers.data() + i * static_cast<std::size_t>(toy_context_size);
      toy_context(text_to(c, tokens, nodes[i]), of);
      known.push_back(of);
    }
    selector.select(selector_contexts{static_cast<std::int32_t>(size), depth, read.data(),
                                      known.data(), trees.data()},
                    selector_lists{ranges.data(), counts.data()});
    for (std::size_t i = 0; i < size; ++i) {
      const std::int32_t node = nodes[i];
      listed[static_cast<std::size_t>(node)] = true;
      tree.lists[node] = s.layout->list(ranges[i], counts[i], drafts.shifts(k, node));
    }
  }

  template <class Drafts, class S>
  void make_law(std::int32_t k, const draft_context& c, Drafts& drafts,
                const drafted_tokens& tokens, const S& sampler, std::int32_t node) const {
    using real = typename Drafts::real;
    const auto tree = drafts.tree(k);
    const std::vector<double> all = world.logits(text_to(c, tokens, node));
    real* const row = drafts.logits(k, node);
    for (std::int32_t at = 0; at < tree.lists[node].size; ++at) {
      row[at] = static_cast<real>(all[static_cast<std::size_t>(tree.lists[node].token_at(at))]);
    }
    team::serial team;
    tree.laws[node] = sampler(team, row_view<real>{row, tree.lists[node].size}, c.parameters,
                              drafts.history(k, c, node, tree.lists + node));
  }

  /// The text that ends with a node.
  static std::uint64_t text_to(const draft_context& c, const drafted_tokens& tokens,
                               std::int32_t node) {
    std::vector<token> path;
    for (std::int32_t up = node; up > 0; up = tokens.parent[up]) {
      path.push_back(tokens.tokens[up]);
    }
    std::uint64_t hash = hash_of(std::span(c.committed, static_cast<std::size_t>(c.length)));
    for (auto t = path.rbegin(); t != path.rend(); ++t) { hash = extend(hash, *t); }
    return hash;
  }

  /// The position of the next child of `parent`, or -1.
  template <class Tree, class Draw>
  std::int32_t child(const drafted_tokens& tokens, const draft_context& c, const Tree& tree,
                     const Draw& draw, std::int32_t parent, std::int32_t sibling) const {
    const auto& q = tree.laws[parent];
    if (q.status != status::ok) { return -1; }
    team::serial team;
    const address where{c.seed, static_cast<std::uint32_t>(c.length),
                        static_cast<std::uint32_t>(parent), static_cast<std::uint32_t>(sibling),
                        purpose::draft};
    const auto position = static_cast<std::uint32_t>(c.length + tokens.depth(parent));
    if constexpr (Children == child_law::independent) {
      return draw(team, where, position, q, tree.lists[parent]);
    }
    const auto taken = [&](std::int64_t at) {
      bool found = false;
      for (std::int32_t i = parent + 1; i < tokens.count; ++i) {
        found = found || (tokens.parent[i] == parent && tokens.drawn_at[i] == at);
      }
      return found;
    };
    const auto left = [&](std::int64_t at) {
      return taken(at) ? 0.0 : static_cast<double>(q.weight(at));
    };
    if constexpr (Children == child_law::without_replacement) {
      return static_cast<std::int32_t>(draw.random.categorical(team, where, q.size(), left));
    } else {
      std::int32_t best = -1;
      for (std::int32_t at = 0; at < q.size(); ++at) {
        if (left(at) > (best < 0 ? 0.0 : left(best))) { best = at; }
      }
      return best;
    }
  }
};

static_assert(Drafter<tree_drafter<child_law::ranked>>);

/// Every tree of `nodes` nodes as the parents of its nodes, in every order in which a parent comes
/// before its children.
inline std::vector<std::vector<std::int32_t>> all_trees(std::int32_t nodes) {
  std::vector<std::vector<std::int32_t>> trees{{-1}};
  for (std::int32_t node = 1; node < nodes; ++node) {
    std::vector<std::vector<std::int32_t>> larger;
    for (const auto& tree : trees) {
      for (std::int32_t parent = 0; parent < node; ++parent) {
        larger.push_back(tree);
        larger.back().push_back(parent);
      }
    }
    trees = std::move(larger);
  }
  return trees;
}

}  // namespace hunch::test

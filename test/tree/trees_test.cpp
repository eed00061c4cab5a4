// SPDX-License-Identifier: Apache-2.0

// Which trees are drafted: against definitions written out.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "../exact/exact.hpp"
#include "../support/toy_heads.hpp"

namespace hunch::test {
namespace {

/// A drafted tree as the paths to its nodes, in the order of the nodes.
using paths = std::vector<text>;

/// Notes every tree that it is shown, and then draws as plain decoding does.
struct recorder {
  static constexpr bool lossless = true;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool) { return true; }

  std::vector<paths>* seen = nullptr;

  template <Team T, class View, class Random>
  void operator()(T& team, const View& view, const Random& random, verdict& out) const {
    paths tree;
    for (std::int32_t node = 1; node < view.tree.count; ++node) {
      text path;
      for (std::int32_t up = node; up > 0; up = view.tree.parent[up]) {
        path.insert(path.begin(), view.tree.tokens[up]);
      }
      tree.push_back(path);
    }
    seen->push_back(tree);
    verifier::point_mass{}(team, view, random, out);
  }
};

struct valued {
  text path;
  float value;  ///< log2 of its probability, summed as the library does, so that ties are ties
};

/// The children of a text by descending probability, the lower token on ties.
std::vector<std::pair<token, float>> ranked_children(const toy_world& world, std::uint64_t text) {
  const std::vector<double> logits = world.logits(text);
  team::serial team;
  const law<double> q =
      kernel::unrestricted(team, row_view<const double>{logits.data(), world.vocab},
                           kernel::scale_at_one<double>, status::invalid_logits);
  std::vector<std::pair<token, float>> children;
  for (std::int32_t v = 0; v < world.vocab; ++v) {
    if (!(q.prob(v) > 0.0)) { continue; }
    children.push_back(
        {v, static_cast<float>(std::min(0.0, kernel::log_of(q.prob(v)) * 1.4426950408889634074))});
  }
  std::ranges::stable_sort(children, [&](const auto& a, const auto& b) {
    return static_cast<float>(logits[static_cast<std::size_t>(a.first)]) >
           static_cast<float>(logits[static_cast<std::size_t>(b.first)]);
  });
  return children;
}

std::uint64_t after(std::uint64_t root, const text& path) {
  for (const token t : path) { root = extend(root, t); }
  return root;
}

/// EAGLE-2 as it is written: expand the best of a level, keep the best of all.
std::vector<valued> best_tree(const toy_world& world, std::uint64_t root, std::size_t top_k,
                              std::int32_t depth, std::size_t total) {
  std::vector<valued> all;
  std::vector<valued> level{{{}, 0.0f}};
  const auto by_value = [](const valued& a, const valued& b) { return a.value > b.value; };
  for (std::int32_t d = 0; d < depth; ++d) {
    std::vector<valued> found;
    for (const valued& node : level) {
      const auto children = ranked_children(world, after(root, node.path));
      for (std::size_t r = 0; r < std::min(top_k, children.size()); ++r) {
        valued child = node;
        child.path.push_back(children[r].first);
        child.value += children[r].second;
        found.push_back(child);
      }
    }
    all.insert(all.end(), found.begin(), found.end());
    std::ranges::stable_sort(found, by_value);
    found.resize(std::min(found.size(), top_k));
    level = found;
  }
  std::ranges::stable_sort(all, by_value);
  all.resize(std::min(all.size(), total - 1));
  return all;
}

/// Runs a request with a recording verifier and calls use(tree, text before it) for every step.
template <class Tree, class Use>
std::int64_t for_each_tree(Tree tree, const toy_world& world, std::int32_t draft_length,
                           Use&& use) {
  toy_target<> target{{world.vocab, 5, flavour::smooth}};
  toy_draft<> draft{world};
  std::vector<paths> seen;
  decoder d{target,
            drafter::autoregressive{draft, tree},
            selector::full{world.vocab},
            plain_sampler{},
            recorder{&seen},
            decoder_options{.draft_length = draft_length, .token_text = {}}};
  std::int64_t trees = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    generation_options asked = ask(12, 0.7f);
    asked.seed = seed;
    text committed{1, 0, 2};
    d.add(committed, asked);
    while (d.running() > 0) {
      seen.clear();
      const std::span<const emission> emitted = d.step();
      REQUIRE(seen.size() == 1);
      const auto left = asked.max_new_tokens - (static_cast<std::int32_t>(committed.size()) - 3);
      use(seen[0], hash_of(committed), std::min(draft_length, left - 1));
      for (const emission& e : emitted) {
        committed.insert(committed.end(), e.tokens.begin(), e.tokens.end());
      }
      ++trees;
    }
  }
  return trees;
}

template <std::int32_t TopK, std::int32_t Depth, std::int32_t Total>
void check_dynamic(const toy_world& world, std::int32_t draft_length) {
  CAPTURE(TopK);
  CAPTURE(Depth);
  CAPTURE(Total);
  const std::int64_t trees =
      for_each_tree(tree::dynamic<TopK, Depth, Total>{}, world, draft_length,
                    [&](const paths& found, std::uint64_t root, std::int32_t limit) {
                      const std::vector<valued> expected =
                          best_tree(world, root, TopK, std::min(Depth, limit), Total);
                      paths in_order;
                      for (const valued& v : expected) { in_order.push_back(v.path); }
                      CHECK(found == in_order);
                    });
  CHECK(trees > 20);
}

TEST_CASE("dynamic trees are those of EAGLE-2") {
  for (const flavour kind : {flavour::smooth, flavour::sharp, flavour::tied, flavour::uniform}) {
    CAPTURE(static_cast<int>(kind));
    const toy_world world{7, 17, kind};
    for (const std::int32_t length : {1, 2, 9}) {
      check_dynamic<3, 3, 8>(world, length);
      check_dynamic<2, 4, 30>(world, length);
      check_dynamic<4, 2, 3>(world, length);
      check_dynamic<10, 3, 60>(world, length);
      check_dynamic<1, 3, 4>(world, length);
    }
  }
}

constexpr tree::choices some{{1}, {0}, {1, 0}, {0, 0}, {0, 3}, {1, 0, 2}};

TEST_CASE("fixed trees have their choices") {
  const toy_world world{7, 18, flavour::smooth};
  using shape = tree::fixed<some>;
  CHECK(shape::max_nodes == 7);
  CHECK(shape::max_inner == 4);
  CHECK(shape::max_depth == 3);
  CHECK(shape::max_width == 2);
  CHECK(shape::max_children == 4);
  CHECK(max_branches<shape> == 3);
  CHECK_FALSE(shape::is_chain);
  const std::vector<std::vector<std::size_t>> ranks{{1}, {0}, {1, 0}, {0, 0}, {0, 3}, {1, 0, 2}};
  for_each_tree(shape{}, world, 3, [&](const paths& found, std::uint64_t root, std::int32_t limit) {
    std::vector<text> expected;
    for (const auto& path : ranks) {
      if (static_cast<std::int32_t>(path.size()) > limit) { continue; }
      text tokens;
      for (const std::size_t r : path) {
        tokens.push_back(ranked_children(world, after(root, tokens))[r].first);
      }
      expected.push_back(tokens);
    }
    auto sorted = found;
    std::ranges::sort(sorted);
    std::ranges::sort(expected);
    CHECK(sorted == expected);
  });
}

TEST_CASE("of a dynamic tree the rows that it is drafted from have branches, or its leaves") {
  // Levels of up to 3 rows each, drafted one after the other from the best of all children.
  CHECK(max_branches<tree::dynamic<3, 4, 9>> == 7);
  CHECK(max_branches<tree::dynamic<1, 4, 5>> == 1);
  CHECK(max_branches<tree::dynamic<2, 2, 40>> == 4);  // it has no more than six candidates
}

TEST_CASE("sampled trees have so many different children") {
  using shape = tree::sampled<3, 2, 1>;
  CHECK(shape::max_nodes == 16);
  CHECK(shape::max_inner == 10);
  CHECK(shape::max_width == 6);
  CHECK(max_branches<shape> == 6);
  CHECK(tree::sampled<1, 1>::is_chain);
  CHECK(tree::sampled<1, 1>::children == child_law::independent);
  for_each_tree(shape{}, toy_world{7, 18, flavour::smooth}, 3,
                [&](const paths& found, std::uint64_t, std::int32_t limit) {
                  std::map<text, std::vector<token>> children;
                  for (const text& path : found) {
                    children[text(path.begin(), path.end() - 1)].push_back(path.back());
                  }
                  const std::size_t widths[] = {3, 2, 1};
                  for (auto& [parent, own] : children) {
                    CHECK(own.size() == widths[parent.size()]);
                    std::ranges::sort(own);
                    CHECK(std::ranges::adjacent_find(own) == own.end());
                  }
                  const std::size_t nodes[] = {0, 3, 9, 15};
                  CHECK(found.size() == nodes[std::clamp(limit, 0, 3)]);
                });
  // No more than there are: a law of one token has one child.
  for_each_tree(shape{}, toy_world{7, 18, flavour::one_hot}, 3,
                [&](const paths& found, std::uint64_t, std::int32_t limit) {
                  CHECK(static_cast<std::int32_t>(found.size()) == std::clamp(limit, 0, 3));
                });
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// Weighing and pruning of trees, against sums of logarithms and a sort, by one thread and by teams.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/draft/prune_tree.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/vocab/vocab_layout.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

using integers = std::vector<std::int32_t>;
constexpr float impossible = -std::numeric_limits<float>::infinity();

struct tree_of_values {
  integers tokens, parents;
  std::vector<float> values;  ///< log2 P(node | parent)

  std::int32_t count() const { return static_cast<std::int32_t>(tokens.size()); }
};

struct pruned_tree {
  integers tokens, parents, was;

  friend bool operator==(const pruned_tree&, const pruned_tree&) = default;
};

/// Of all trees, each with its number of nodes to keep.
template <class E>
std::vector<pruned_tree> run(const std::vector<tree_of_values>& trees, const integers& keep,
                             E executor) {
  std::vector<tree_of_values> work = trees;
  std::vector<integers> was(trees.size());
  std::vector<std::vector<std::int64_t>> space(trees.size());
  integers counts;
  for (const tree_of_values& t : trees) { counts.push_back(t.count()); }
  std::vector<kernel::prunable_tree> views;
  for (std::size_t i = 0; i < work.size(); ++i) {
    was[i].resize(work[i].tokens.size());
    space[i].resize(work[i].tokens.size());
    views.push_back({keep[i], &counts[i], work[i].tokens.data(), work[i].parents.data(),
                     work[i].values.data(), was[i].data(), space[i].data()});
  }
  executor.launch(static_cast<std::int32_t>(views.size()), kernel::prune_tree{views.data()});
  std::vector<pruned_tree> out;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const auto end = static_cast<std::ptrdiff_t>(counts[i]);
    const auto first = [end](const integers& of) { return integers(of.begin(), of.begin() + end); };
    out.push_back({first(work[i].tokens), first(work[i].parents), first(was[i])});
  }
  return out;
}

/// The paths that are worth most, one node after the other.
pruned_tree reference(const tree_of_values& t, std::int32_t keep) {
  std::vector<float> worth{0.0f};
  for (std::int32_t i = 1; i < t.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    worth.push_back(t.values[at] + worth[static_cast<std::size_t>(t.parents[at])]);
  }
  integers order;
  for (std::int32_t i = 0; i < t.count(); ++i) {
    if (worth[static_cast<std::size_t>(i)] != impossible) { order.push_back(i); }
  }
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return worth[static_cast<std::size_t>(a)] > worth[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(keep)));
  std::ranges::sort(order);
  pruned_tree out;
  for (const std::int32_t node : order) {
    const std::int32_t parent = t.parents[static_cast<std::size_t>(node)];
    const auto at = std::ranges::find(order, parent);
    REQUIRE((node == 0 || at != order.end()));  // with a node its ancestors stay
    out.tokens.push_back(t.tokens[static_cast<std::size_t>(node)]);
    out.parents.push_back(node == 0 ? -1 : static_cast<std::int32_t>(at - order.begin()));
    out.was.push_back(node);
  }
  return out;
}

tree_of_values some_tree(dice& random, std::int32_t nodes) {
  tree_of_values t;
  const std::int32_t reach = 1 + random.below(nodes);
  for (std::int32_t i = 0; i < nodes; ++i) {
    t.tokens.push_back(1000 + i);
    t.parents.push_back(i == 0 ? -1 : std::max(0, i - 1 - random.below(reach)));
    // Few values, so that there are ties, sure children and impossible ones.
    const std::int32_t kind = random.below(8);
    t.values.push_back(kind == 0 ? impossible : -0.5f * static_cast<float>(kind / 2));
  }
  return t;
}

TEST_CASE("of trees of any size the best paths stay") {
  dice random{5};
  std::set<std::size_t> kept;
  for (std::int32_t round = 0; round < 150; ++round) {
    CAPTURE(round);
    std::vector<tree_of_values> trees;
    integers keep;
    for (std::int32_t i = 0; i <= random.below(3); ++i) {
      trees.push_back(some_tree(random, 1 + random.below(round % 3 == 0 ? 200 : 30)));
      keep.push_back(1 + random.below(trees.back().count() + 2));
    }
    std::vector<pruned_tree> expected;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      expected.push_back(reference(trees[i], keep[i]));
      kept.insert(expected.back().was.size());
    }
    CHECK(run(trees, keep, executor::host{}) == expected);
    if (round % 8 < 2) {
      CHECK(run(trees, keep, threads{{}, 1, 3}) == expected);
      CHECK(run(trees, keep, threads{{}, 2, 2}) == expected);
    }
  }
  CHECK(kept.size() > 20);
}

TEST_CASE("a pruned tree by hand") {
  // Two children of the root; the first has two children, the second has one.
  const tree_of_values t{
      {9, 1, 2, 11, 12, 21}, {-1, 0, 0, 1, 1, 2}, {0.0f, -1.0f, -1.5f, -2.0f, -0.25f, 0.0f}};
  // Worth 0, -1, -1.5, -3, -1.25, -1.5: the parent comes before its sure child.
  const auto with = [&](std::int32_t keep) { return run({t}, {keep}, executor::host{}).front(); };
  CHECK(with(1) == pruned_tree{{9}, {-1}, {0}});
  CHECK(with(3) == pruned_tree{{9, 1, 12}, {-1, 0, 1}, {0, 1, 4}});
  CHECK(with(4) == pruned_tree{{9, 1, 2, 12}, {-1, 0, 0, 1}, {0, 1, 2, 4}});
  CHECK(with(5) == pruned_tree{{9, 1, 2, 12, 21}, {-1, 0, 0, 1, 2}, {0, 1, 2, 4, 5}});
  CHECK(with(50).was == integers{0, 1, 2, 3, 4, 5});
}

TEST_CASE("children weigh what the law says of them") {
  using plain = sampler::pipeline<sampler::temperature>;
  constexpr std::int32_t vocab = 4103;  // two tiles, the second one almost empty
  dice random{7};
  std::vector<float> logits;
  for (std::int32_t i = 0; i < vocab; ++i) {
    logits.push_back(0.01f * static_cast<float>(random.below(900)));
  }
  logits[17] = impossible;
  double sum = 0.0;
  for (const float x : logits) { sum += std::exp2(static_cast<double>(x) * 1.4426950408889634); }
  const vocab_layout layout = vocab_layout::identity(vocab + 5);
  const row_range range{0, vocab};  // the last five tokens are not in the list
  integers tokens{3, 40, 17, 4102, 4105, 5};
  integers parents{-1, 0, 0, 0, 0, 1};
  for (const float temperature : {0.0f, 0.3f, 1.0f}) {
    std::vector<float> row = logits, found(6, 77.0f);
    const std::int32_t none = 0;
    kernel::transition_row<float> task;
    task.list = layout.list(&range, 1, nullptr);
    task.logits = {row.data(), vocab};
    task.parameters.temperature = temperature;
    task.tree = {6, tokens.data(), parents.data(), nullptr};
    task.node = none;
    task.transition = found.data();
    const auto weigh = [&](auto executor) {
      executor.launch(1, kernel::weigh_transitions<float, plain>{&task, plain{}});
    };
    weigh(executor::host{});
    for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) {
      const auto at = static_cast<std::size_t>(tokens[i]);
      const double bits = static_cast<double>(logits[at]) * 1.4426950408889634 - std::log2(sum);
      CHECK(static_cast<double>(found[i]) == doctest::Approx(bits).epsilon(1e-5));
    }
    CHECK(found[2] == impossible);
    CHECK(found[4] == impossible);
    CHECK(found[5] == 77.0f);  // no child of the node
    const std::vector<float> by_one = found;
    for (const threads& team : {threads{{}, 1, 3}, threads{{}, 2, 2}}) {
      found.assign(6, 77.0f);
      weigh(team);
      CHECK(found == by_one);
    }
    // A row with an error has no possible children.
    row[5] = std::numeric_limits<float>::quiet_NaN();
    weigh(executor::host{});
    CHECK(found[1] == impossible);
  }
}

}  // namespace
}  // namespace hunch::test

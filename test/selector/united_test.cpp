// SPDX-License-Identifier: Apache-2.0

// The union of shortlists over the nodes of a tree: every row that a node asked for and no other,
// per tree and never across trees.

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/selector/full.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/united.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"
#include "../support/toy_selector.hpp"

namespace hunch::test {
namespace {

template <class S, class E>
std::vector<std::vector<row_range>> select(S& selector, E executor,
                                           const std::vector<token>& tokens,
                                           const std::int32_t* trees) {
  std::vector<std::vector<row_range>> lists(
      tokens.size(), std::vector<row_range>(static_cast<std::size_t>(selector.max_ranges())));
  std::vector<row_range*> to;
  for (auto& list : lists) { to.push_back(list.data()); }
  to.push_back(nullptr);  // padding
  std::vector<std::int32_t> counts(to.size(), -1);
  std::vector<token> read = tokens;
  read.push_back(-1);
  std::vector<std::int32_t> of;
  if (trees != nullptr) { of.assign(trees, trees + tokens.size()); }
  of.push_back(of.empty() ? 0 : of.back());
  const auto size = static_cast<std::int32_t>(to.size());
  selecting<S, E>{selector, executor, size}.select(
      {size, 1, read.data(), nullptr, trees != nullptr ? of.data() : nullptr},
      {to.data(), counts.data()});
  CHECK(counts.back() == -1);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    lists[i].resize(static_cast<std::size_t>(counts[i]));
  }
  return lists;
}

bool same(const row_range& a, const row_range& b) { return a.begin == b.begin && a.end == b.end; }

/// By one thread, and the same by teams of them.
template <class S>
std::vector<std::vector<row_range>> select(S& selector, const std::vector<token>& tokens,
                                           const std::int32_t* trees) {
  const auto alone = select(selector, executor::host{}, tokens, trees);
  threads teams;
  teams.blocks = 2;
  teams.ranks = 3;
  const auto together = select(selector, teams, tokens, trees);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(std::ranges::equal(alone[i], together[i], same));
  }
  return alone;
}

std::set<std::int32_t> rows_of(const std::vector<row_range>& list) {
  std::set<std::int32_t> rows;
  std::int32_t before = -1;
  for (const row_range& r : list) {
    CHECK(r.begin > before);  // ascending, disjoint, merged
    CHECK(r.end > r.begin);
    before = r.end;
    for (std::int32_t row = r.begin; row < r.end; ++row) { rows.insert(row); }
  }
  return rows;
}

TEST_CASE("the union of the lists of a tree") {
  constexpr std::int32_t vocab = 61;
  dice random{4};
  for (int round = 0; round < 200; ++round) {
    std::vector<token> tokens;
    std::vector<std::int32_t> trees;
    for (std::int32_t tree = 0; tree < 4; ++tree) {
      for (auto nodes = 1 + random.below(4); nodes > 0; --nodes) {
        tokens.push_back(static_cast<token>(random.below(vocab)));
        trees.push_back(tree);
      }
    }
    toy_selector alone{vocab_layout::identity(vocab)};
    selector::united together{toy_selector{vocab_layout::identity(vocab)}, 4};
    const auto own = select(alone, tokens, trees.data());
    const auto all = select(together, tokens, trees.data());
    const auto apart = select(together, tokens, nullptr);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::set<std::int32_t> expected;
      for (std::size_t j = 0; j < tokens.size(); ++j) {
        if (trees[j] == trees[i]) { expected.merge(rows_of(own[j])); }
      }
      CHECK(rows_of(all[i]) == expected);
      CHECK(rows_of(apart[i]) == rows_of(own[i]));
      CHECK(static_cast<std::int32_t>(all[i].size()) <= together.max_ranges());
      CHECK(static_cast<std::int32_t>(expected.size()) <= together.max_rows());
    }
  }
}

TEST_CASE("nodes of a tree that is wider than was said have lists of their own") {
  CHECK_THROWS_AS((selector::united{selector::full{8}, 0}), std::invalid_argument);
  toy_selector one{vocab_layout::identity(20)};
  selector::united narrow{one, 2};
  const std::int32_t trees[] = {0, 0, 0};
  const auto own = select(one, {1, 2, 3}, trees);
  const auto all = select(narrow, {1, 2, 3}, trees);
  for (std::size_t i = 0; i < own.size(); ++i) { CHECK(std::ranges::equal(own[i], all[i], same)); }
  // Negative control: two of them are united.
  const auto two = select(narrow, {1, 2}, trees);
  CHECK(!std::ranges::equal(own[0], two[0], same));
}

}  // namespace
}  // namespace hunch::test

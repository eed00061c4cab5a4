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
#include <hunch/selector/united.hpp>
#include "../support/hash.hpp"
#include "../support/toy_selector.hpp"

namespace hunch::test {
namespace {

template <class S>
std::vector<std::vector<row_range>> select(S& selector, const std::vector<token>& tokens,
                                           const std::int32_t* trees) {
  std::vector<std::vector<row_range>> lists(
      tokens.size(), std::vector<row_range>(static_cast<std::size_t>(selector.max_ranges())));
  std::vector<row_range*> to;
  for (auto& list : lists) { to.push_back(list.data()); }
  std::vector<std::int32_t> counts(tokens.size());
  selector.select({static_cast<std::int32_t>(tokens.size()), 1, tokens.data(), nullptr, trees},
                  {to.data(), counts.data()});
  for (std::size_t i = 0; i < lists.size(); ++i) {
    lists[i].resize(static_cast<std::size_t>(counts[i]));
  }
  return lists;
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

TEST_CASE("a tree that is wider than was said") {
  CHECK_THROWS_AS((selector::united{selector::full{8}, 0}), std::invalid_argument);
  selector::united narrow{selector::full{8}, 2};
  const std::int32_t trees[] = {0, 0, 0};
  CHECK_THROWS_AS(select(narrow, {1, 2, 3}, trees), std::length_error);
}

}  // namespace
}  // namespace hunch::test

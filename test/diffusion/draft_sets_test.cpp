// SPDX-License-Identifier: Apache-2.0

// Which sets of drafts get a canvas: counted by hand.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/drafter/detail/draft_sets.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

using diffusion::draft_sets;
using diffusion::planned_draft;
using diffusion::unmasking;

planned_draft likely(std::int32_t position, double probability, std::int32_t block = 0,
                     token t = 7) {
  return {{position, t}, block, 0, probability, 0.0, false};
}

/// What is chosen: drafts, and sets of them.
struct choice {
  std::vector<unmasking> drafts;
  std::vector<std::uint64_t> sets;
};

/// `lists[d]` is what comes after the first d of the chain; the chain is what is first in each, or
/// if there is one list, the whole of it.
choice choose(const std::vector<std::vector<planned_draft>>& lists, std::int32_t chain,
              double spread) {
  choice c;
  c.drafts.resize(draft_sets::most);
  c.sets.resize(static_cast<std::size_t>(chain) + 1, ~std::uint64_t{0});
  for (std::size_t i = 0; i < static_cast<std::size_t>(chain); ++i) {
    c.drafts[i] = lists.size() == 1 ? lists[0][i].what : lists[i][0].what;
  }
  std::vector<draft_sets::reached> reached(static_cast<std::size_t>(draft_sets::room(chain)));
  std::vector<draft_sets::next_draft> next(draft_sets::looked_at);
  draft_sets sets(reached.data(), next.data());
  const std::int32_t proposed = sets.choose(
      c.drafts.data(), chain, c.sets.data(), spread, static_cast<std::int32_t>(lists.size()),
      [&](std::int32_t d) {
        const auto& list = lists[static_cast<std::size_t>(d)];
        return diffusion::draft_list{list.data(), static_cast<std::int32_t>(list.size())};
      });
  c.drafts.resize(static_cast<std::size_t>(proposed));
  c.sets.resize(static_cast<std::size_t>(sets.size()) + 1);
  return c;
}

using sets_of = std::vector<std::uint64_t>;

TEST_CASE("without spread, a chain") {
  const std::vector<planned_draft> list{likely(3, 0.9), likely(1, 0.5), likely(2, 0.1),
                                        likely(9, 0.8, 1)};
  CHECK(choose({list}, 4, 0.0).sets == sets_of{0, 0b1, 0b11, 0b111, 0b1111});
  CHECK(choose({list}, 2, 0.0).sets == sets_of{0, 0b1, 0b11});
  CHECK(choose({list}, 0, 0.0).sets == sets_of{0});
}

TEST_CASE("the most likely sets, arrived at in all orders") {
  // With a spread of 1 by odds, here 3 : 2 : 2. A is next with 3 / 7, B and C with 2 / 7, and they
  // keep their tokens with 0.6 or 0.5 to the power 1 / 4: {A} 0.377, {B} and {C} 0.240. {AB} has
  // 0.377 / 2 * 0.841 = 0.159 by A and, when {B} is chosen, 0.240 * 3 / 5 * 0.880 = 0.127 more.
  const std::vector<planned_draft> list{likely(3, 0.6), likely(1, 0.5), likely(2, 0.5)};
  CHECK(choose({list}, 3, 1.0).sets == sets_of{0, 0b1, 0b10, 0b11});
  // With 0.5 by odds squared, 9 : 4 : 4: {A} 0.466, {B} 0.198, {AB} 0.466 / 2 * 0.841 = 0.196 by A,
  // which {B} makes more than {C}; with 0.1 by their tenth power: {A} 0.851, {AB} 0.358.
  CHECK(choose({list}, 3, 0.5).sets == sets_of{0, 0b1, 0b10, 0b11});
  CHECK(choose({list}, 3, 0.1).sets == sets_of{0, 0b1, 0b11, 0b101});
  // Whatever comes first in the order is the likeliest to be next, here with 1 : 1 : 1 / 99; but a
  // doubtful token makes every set with it less likely: {A} 0.157, {B} 0.418.
  const std::vector<planned_draft> doubtful{likely(3, 0.01), likely(1, 0.5), likely(2, 0.5)};
  CHECK(choose({doubtful}, 1, 1.0).sets == sets_of{0, 0b10});
}

TEST_CASE("tokens that are certain, or impossible") {
  const std::vector<planned_draft> list{likely(3, 1.0), likely(1, 1.0), likely(2, 0.0)};
  CHECK(choose({list}, 3, 1.0).sets == sets_of{0, 0b1, 0b10, 0b11});
}

TEST_CASE("a block is full before the next one is begun") {
  const std::vector<planned_draft> list{likely(3, 0.1), likely(1, 0.1), likely(9, 1.0, 1),
                                        likely(8, 1.0, 1)};
  for (const std::uint64_t set : choose({list}, 4, 0.8).sets) {
    CHECK(((set & 0b1100) == 0 || (set & 0b11) == 0b11));
  }
}

TEST_CASE("what is known after the first of the chain goes for all sets that have it") {
  // After A, position 1 gets another token than before.
  const std::vector<planned_draft> before{likely(3, 0.9), likely(1, 0.5)};
  const std::vector<planned_draft> after{likely(1, 0.9, 0, 8), likely(2, 0.1)};
  const choice c = choose({before, after}, 2, 1.0);
  CHECK(c.drafts == std::vector<unmasking>{{3, 7}, {1, 8}, {1, 7}, {2, 7}});
  CHECK(c.sets == sets_of{0, 0b1, 0b11});
  // If both are as likely: {A} 0.440, the other token without A 0.440, {A} and the new token
  // 0.440 * 81 / 82 * 0.974 = 0.423.
  const std::vector<planned_draft> alike{likely(3, 0.6), likely(1, 0.6)};
  const choice wider = choose({alike, after, {likely(2, 0.9)}}, 3, 1.0);
  CHECK(wider.drafts[3] == unmasking{1, 7});
  CHECK(wider.sets == sets_of{0, 0b1, 0b1000, 0b11});
}

/// The definition, written down again: sets of indices in a list, and how likely each is to be
/// passed through.
using passed = std::map<std::set<std::size_t>, double>;

double next(const std::vector<planned_draft>& list, const std::set<std::size_t>& after,
            std::size_t i, double spread) {
  std::vector<std::size_t> left;
  for (std::size_t j = 0; j < list.size(); ++j) {
    if (after.count(j) == 0 && left.size() < 8 &&
        (left.empty() || list[j].block == list[left[0]].block)) {
      left.push_back(j);
    }
  }
  std::vector<double> weights;
  double sum = 0.0;
  for (const std::size_t j : left) {
    weights.push_back(std::pow(list[j].probability / (1.0 - list[j].probability), 1.0 / spread));
    sum += weights.back();
  }
  std::sort(weights.rbegin(), weights.rend());
  const auto rank = static_cast<std::size_t>(std::find(left.begin(), left.end(), i) - left.begin());
  return rank == left.size() ? 0.0 : weights[rank] / sum * std::pow(list[i].probability, 0.25);
}

std::vector<std::set<std::size_t>> by_definition(const std::vector<planned_draft>& list,
                                                 std::size_t count, double spread) {
  passed chosen{{{}, 1.0}};
  std::vector<std::set<std::size_t>> order{{}};
  while (order.size() <= count) {
    passed reached;
    for (const auto& [set, probability] : chosen) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (set.count(i) == 1) { continue; }
        auto more = set;
        more.insert(i);
        if (chosen.count(more) == 0) { reached[more] += probability * next(list, set, i, spread); }
      }
    }
    const auto best = std::max_element(reached.begin(), reached.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    chosen.insert(*best);
    order.push_back(best->first);
  }
  return order;
}

TEST_CASE("sets by the definition") {
  dice random{5};
  std::int32_t others = 0;  // than those of a chain
  for (std::int32_t run = 0; run < 500; ++run) {
    const auto length = static_cast<std::size_t>(2 + random.below(11));
    std::vector<planned_draft> list;
    for (std::size_t i = 0; i < length; ++i) {
      list.push_back(likely(static_cast<std::int32_t>(i), random.unit(),
                            run % 2 == 0 && i >= length / 2 ? 1 : 0));
    }
    const double spread = 0.2 + 1.8 * random.unit();
    const choice found = choose({list}, static_cast<std::int32_t>(length), spread);
    const auto expected = by_definition(list, length, spread);
    REQUIRE(found.sets.size() == expected.size());
    for (std::size_t c = 0; c < expected.size(); ++c) {
      std::uint64_t set = 0;
      for (const std::size_t i : expected[c]) { set |= std::uint64_t{1} << i; }
      CHECK(found.sets[c] == set);
      others += set == (std::uint64_t{1} << c) - 1 ? 0 : 1;
    }
  }
  CHECK(others > 500);
}

TEST_CASE("more drafts than a word has bits") {
  // Every pass of a draft model finds other tokens.
  std::vector<std::vector<planned_draft>> lists;
  for (std::int32_t d = 0; d < 20; ++d) {
    auto& list = lists.emplace_back();
    for (std::int32_t i = 0; i < 20; ++i) {
      const bool of_chain = i == 0;
      list.push_back(
          likely(of_chain ? d : 20 + i, of_chain ? 1.0 : 0.5, 0, of_chain ? 7 : 100 + d));
    }
  }
  const choice c = choose(lists, 20, 0.2);
  CHECK(c.drafts.size() == draft_sets::most);
  CHECK(c.sets.size() == 21);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// Masks and links of trees, against sets of ancestors and lists of children.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/executor/host.hpp>
#include "../support/hash.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

using integers = std::vector<std::int32_t>;

struct operated {
  std::vector<std::uint32_t> masks;
  integers levels, child, sibling;
  std::vector<status> of_masks, of_links;

  friend bool operator==(const operated&, const operated&) = default;
};

/// Trees of `nodes` nodes at most.
struct forest {
  std::int32_t nodes = 0;
  integers counts, parents;

  std::int32_t batch() const { return static_cast<std::int32_t>(counts.size()); }
  std::size_t all() const { return parents.size(); }
};

template <class E>
operated run(const forest& f, E executor) {
  const auto words = static_cast<std::size_t>(mask_words(f.nodes));
  operated out{std::vector<std::uint32_t>(f.all() * words, 0xcccccccc),
               integers(f.all(), -7),
               integers(f.all(), -7),
               integers(f.all(), -7),
               std::vector<status>(f.counts.size(), status::cache_full),
               std::vector<status>(f.counts.size(), status::cache_full)};
  const tree_parents trees{f.batch(), f.nodes, f.counts.data(), f.parents.data()};
  ancestor_masks(executor, {trees, out.masks.data(), out.levels.data(), out.of_masks.data()});
  tree_links(executor, {trees, out.child.data(), out.sibling.data(), out.of_links.data()});
  return out;
}

/// A node whose parent does not come before it counts as a child of the root that has no link.
operated reference(const forest& f) {
  operated out;
  for (std::int32_t k = 0; k < f.batch(); ++k) {
    std::vector<std::set<std::int32_t>> sees(static_cast<std::size_t>(f.nodes));
    std::vector<integers> children(static_cast<std::size_t>(f.nodes));
    integers sibling(static_cast<std::size_t>(f.nodes), -1);
    bool strays = false;
    for (std::int32_t i = 0; i < f.counts[static_cast<std::size_t>(k)]; ++i) {
      const std::int32_t parent = f.parents[static_cast<std::size_t>(k * f.nodes + i)];
      auto& own = sees[static_cast<std::size_t>(i)];
      own = {0, i};
      if (i == 0) { continue; }
      if (parent < 0 || parent >= i) {
        strays = true;
        continue;
      }
      own.insert(sees[static_cast<std::size_t>(parent)].begin(),
                 sees[static_cast<std::size_t>(parent)].end());
      integers& before = children[static_cast<std::size_t>(parent)];
      if (!before.empty()) { sibling[static_cast<std::size_t>(before.back())] = i; }
      before.push_back(i);
    }
    for (std::int32_t i = 0; i < f.nodes; ++i) {
      const auto& seen = sees[static_cast<std::size_t>(i)];
      for (std::int32_t w = 0; w < mask_words(f.nodes); ++w) {
        std::uint32_t bits = 0;
        for (std::int32_t b = 0; b < 32; ++b) {
          bits |= seen.contains(32 * w + b) ? std::uint32_t(1) << b : 0;
        }
        out.masks.push_back(bits);
      }
      out.levels.push_back(std::max(0, static_cast<std::int32_t>(seen.size()) - 1));
      const integers& below = children[static_cast<std::size_t>(i)];
      out.child.push_back(below.empty() ? -1 : below.front());
      out.sibling.push_back(sibling[static_cast<std::size_t>(i)]);
    }
    out.of_masks.push_back(strays ? status::invalid_draft : status::ok);
  }
  out.of_links = out.of_masks;
  return out;
}

forest some_forest(dice& random, std::int32_t batch, std::int32_t nodes, bool broken) {
  forest f{nodes, {}, {}};
  for (std::int32_t k = 0; k < batch; ++k) {
    f.counts.push_back(random.below(nodes + 1));
    const std::int32_t reach = 1 + random.below(nodes);  // deep trees, and bushes
    for (std::int32_t i = 0; i < nodes; ++i) {
      f.parents.push_back(i == 0 ? -1 : std::max(0, i - 1 - random.below(reach)));
      if (broken && random.below(9) == 0) { f.parents.back() = random.below(3 * nodes) - nodes; }
    }
  }
  return f;
}

TEST_CASE("masks and links of trees of any size") {
  dice random{1};
  std::set<std::int32_t> sizes;
  for (std::int32_t round = 0; round < 200; ++round) {
    CAPTURE(round);
    const std::int32_t nodes = 1 + random.below(round % 3 == 0 ? 200 : 40);
    sizes.insert(mask_words(nodes));
    const forest f = some_forest(random, 1 + random.below(4), nodes, round % 2 == 1);
    const operated expected = reference(f);
    CHECK(run(f, executor::host{}) == expected);
    if (round % 8 < 2) {
      CHECK(run(f, threads{{}, 1, 3}) == expected);
      CHECK(run(f, threads{{}, 2, 2}) == expected);
    }
  }
  CHECK(sizes.size() == 7);  // beyond 32, 64 and 128 nodes
}

TEST_CASE("a tree by hand") {
  // Two children of the root; the first has two children, the second has one. Room for 34 nodes.
  forest f{34, {6}, integers(34, 77)};
  std::ranges::copy(integers{-1, 0, 0, 1, 1, 2}, f.parents.begin());
  const operated out = run(f, executor::host{});
  const auto begin = [](const integers& of) { return integers(of.begin(), of.begin() + 7); };
  CHECK(begin(out.child) == integers{1, 3, 5, -1, -1, -1, -1});
  CHECK(begin(out.sibling) == integers{-1, 2, -1, 4, -1, -1, -1});
  CHECK(begin(out.levels) == integers{0, 1, 1, 2, 2, 2, 0});
  const std::vector<std::uint32_t> rows{0x01, 0, 0x03, 0, 0x05, 0, 0x0b, 0, 0x13, 0, 0x25, 0, 0, 0};
  CHECK(std::equal(rows.begin(), rows.end(), out.masks.begin()));
  CHECK(out.of_masks[0] == status::ok);
}

TEST_CASE("without counts all nodes are there, and statuses and levels may be left out") {
  const integers parents{-1, 0, 1, 2};
  std::vector<std::uint32_t> masks(4);
  integers child(4), sibling(4);
  executor::host host;
  const tree_parents chain{1, 4, nullptr, parents.data()};
  ancestor_masks(host, {chain, masks.data()});
  tree_links(host, {chain, child.data(), sibling.data()});
  CHECK(masks == std::vector<std::uint32_t>{1, 3, 7, 15});
  CHECK(child == integers{1, 2, 3, -1});
  CHECK(sibling == integers(4, -1));
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// Trees built from a drafter's choice, against sets of ancestors.

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <hunch/interop/sglang_tree.hpp>
#include "support.hpp"

namespace hunch::test::interop_sglang_tree {
namespace {

namespace adapter = interop::sglang;
using ids = std::vector<std::int64_t>;
using adapter::tree_mask_mode;

struct built {
  std::vector<std::uint8_t> mask;
  ids positions, index, next, sibling;
  std::vector<status> statuses;

  friend bool operator==(const built&, const built&) = default;
};

/// Candidates of a batch: which candidate each expansion expands, and which are selected.
struct choice {
  std::int32_t batch = 0, topk = 0, depth = 0, nodes = 0;
  ids parents, selected, lengths;
};

/// The number of the first candidate of expansion e is e * topk; expansion 0 is the root, then come
/// topk expansions for each level but the last.
choice some_choice(dice& random, std::int32_t batch, std::int32_t topk, std::int32_t depth) {
  choice c{batch, topk, depth, 0, {}, {}, {}};
  const std::int32_t candidates = topk + topk * topk * (depth - 1);
  c.nodes = 1 + random.below(std::min(candidates, 20) + 1);
  for (std::int32_t b = 0; b < batch; ++b) {
    ids parents{-1};
    for (std::int32_t level = 1; level < depth; ++level) {
      // Expanded are topk different candidates of the level before, which has topk or topk^2.
      const std::int32_t from = level == 1 ? 0 : topk + topk * topk * (level - 2);
      const std::int32_t to = topk + topk * topk * (level - 1);
      std::set<std::int64_t> chosen;
      while (std::ssize(chosen) < topk) { chosen.insert(from + random.below(to - from)); }
      append(parents, ids(chosen.begin(), chosen.end()));
    }
    std::set<std::int64_t> selected;
    for (std::int32_t tries = 0; std::ssize(selected) < c.nodes - 1; ++tries) {
      const std::int64_t s = random.below(candidates);
      const std::int64_t parent = parents[static_cast<std::size_t>(s / topk)];
      if (parent < 0 || selected.contains(parent)) { selected.insert(s); }
    }
    append(c.parents, parents);
    append(c.selected, ids(selected.begin(), selected.end()));
    c.lengths.push_back(random.below(9));
  }
  return c;
}

std::size_t mask_size(const choice& c, tree_mask_mode mode) {
  const std::int64_t n = c.nodes;
  std::int64_t cached = 0;
  for (const auto l : c.lengths) { cached += l; }
  switch (mode) {
    case tree_mask_mode::full:
      return static_cast<std::size_t>((cached + n * c.batch) * n);
    case tree_mask_mode::query_only:
      return static_cast<std::size_t>(n * n * c.batch);
    case tree_mask_mode::query_packed:
      return static_cast<std::size_t>(n * c.batch * adapter::packed_mask_bytes(c.nodes));
  }
  return 0;
}

template <class E>
built run(const choice& c, tree_mask_mode mode, E executor) {
  const auto n = static_cast<std::size_t>(c.batch * c.nodes);
  built out{std::vector<std::uint8_t>(mask_size(c, mode), 0xcc),
            ids(n, -7),
            ids(n, -7),
            ids(n, -7),
            ids(n, -7),
            std::vector<status>(static_cast<std::size_t>(c.batch), status::cache_full)};
  adapter::build_tree_kernel_efficient(
      executor, {c.batch, c.topk, c.depth, c.nodes, mode, c.parents.data(), c.selected.data(),
                 c.lengths.data(), out.mask.data(), out.positions.data(), out.index.data(),
                 out.next.data(), out.sibling.data(), out.statuses.data()});
  return out;
}

built reference(const choice& c, tree_mask_mode mode) {
  built out;
  const std::size_t expansions = static_cast<std::size_t>(c.topk * (c.depth - 1) + 1);
  for (std::int32_t b = 0; b < c.batch; ++b) {
    const ids selected = row_of(c.selected, b, c.nodes - 1);
    const auto cached = c.lengths[static_cast<std::size_t>(b)];
    std::vector<ids> children(static_cast<std::size_t>(c.nodes));
    std::vector<std::set<std::int64_t>> sees(static_cast<std::size_t>(c.nodes), {0});
    for (std::int64_t i = 1; i < c.nodes; ++i) {
      const auto s = selected[static_cast<std::size_t>(i) - 1];
      const auto p = c.parents[static_cast<std::size_t>(b) * expansions +
                               static_cast<std::size_t>(s / c.topk)];
      const auto parent = p < 0 ? 0 : std::ranges::find(selected, p) - selected.begin() + 1;
      children[static_cast<std::size_t>(parent)].push_back(i);
      sees[static_cast<std::size_t>(i)] = sees[static_cast<std::size_t>(parent)];
      sees[static_cast<std::size_t>(i)].insert(i);
    }
    ids sibling(static_cast<std::size_t>(c.nodes), -1);
    for (const ids& of_one : children) {
      out.next.push_back(of_one.empty() ? -1 : of_one[0]);
      for (std::size_t k = 1; k < of_one.size(); ++k) {
        sibling[static_cast<std::size_t>(of_one[k - 1])] = of_one[k];
      }
    }
    append(out.sibling, sibling);
    for (std::int64_t i = 0; i < c.nodes; ++i) {
      const auto& seen = sees[static_cast<std::size_t>(i)];
      out.positions.push_back(cached + std::ssize(seen) - 1);
      out.index.push_back(b * c.nodes + i);
      if (mode == tree_mask_mode::full) {
        out.mask.insert(out.mask.end(), static_cast<std::size_t>(cached), 1);
      }
      if (mode == tree_mask_mode::query_packed) {
        std::uint64_t bits = 0;
        for (const auto j : seen) { bits |= std::uint64_t(1) << j; }
        for (std::int32_t k = 0; k < adapter::packed_mask_bytes(c.nodes); ++k) {
          out.mask.push_back(static_cast<std::uint8_t>(bits >> (8 * k)));
        }
      } else {
        for (std::int64_t j = 0; j < c.nodes; ++j) { out.mask.push_back(seen.contains(j) ? 1 : 0); }
      }
    }
    out.statuses.push_back(status::ok);
  }
  return out;
}

TEST_CASE("sglang: masks, positions and links are those of the sets of ancestors") {
  dice random{1};
  std::set<std::int32_t> sizes;
  for (int round = 0; round < 200; ++round) {
    const choice c =
        some_choice(random, 1 + random.below(5), 1 + random.below(4), 1 + random.below(5));
    sizes.insert(c.nodes);
    for (const auto mode :
         {tree_mask_mode::full, tree_mask_mode::query_only, tree_mask_mode::query_packed}) {
      CAPTURE(round);
      const built expected = reference(c, mode);
      CHECK(run(c, mode, executor::host{}) == expected);
      if (round % 4 == 0) { CHECK(run(c, mode, two_blocks) == expected); }
      if (round % 4 == 1) { CHECK(run(c, mode, one_block) == expected); }
    }
  }
  CHECK(sizes.size() > 15);  // packed masks of one, two and four bytes
  CHECK(*sizes.rbegin() > 16);
}

TEST_CASE("sglang: a tree by hand") {
  // Two children of the root; the first has two children, the second has one.
  const choice c{1, 2, 2, 6, {-1, 0, 1}, {0, 1, 2, 3, 4}, {7}};
  const built out = run(c, tree_mask_mode::query_packed, executor::host{});
  CHECK(out.positions == ids{7, 8, 8, 9, 9, 9});
  CHECK(out.next == ids{1, 3, 5, -1, -1, -1});
  CHECK(out.sibling == ids{-1, 2, -1, 4, -1, -1});
  CHECK(out.index == ids{0, 1, 2, 3, 4, 5});
  CHECK(out.mask == std::vector<std::uint8_t>{0x01, 0x03, 0x05, 0x0b, 0x13, 0x25});
}

TEST_CASE("sglang: choices that are no tree end in a status and stay in their arrays") {
  const choice good{3,        2, 2, 4, {-1, 0, 1, -1, 0, 1, -1, 0, 1}, {0, 1, 2, 0, 1, 2, 0, 1, 2},
                    {3, 4, 5}};
  const built expected = run(good, tree_mask_mode::full, executor::host{});
  const auto check = [&](auto&& damage) {
    choice c = good;
    damage(c);
    const built out = run(c, tree_mask_mode::full, executor::host{});
    CHECK(out.statuses[1] == status::invalid_draft);
    CHECK(out.sibling[7] == -1);
    CHECK(out.next[5] == -1);  // nothing links to node 3
    CHECK(out.next[6] == -1);
    CHECK(row_of(out.next, 0, 4) == row_of(expected.next, 0, 4));
    CHECK(row_of(out.next, 2, 4) == row_of(expected.next, 2, 4));
    CHECK(out.statuses[0] == status::ok);
    CHECK(out.statuses[2] == status::ok);
  };
  check([](choice& c) { c.selected[5] = -3; });
  check([](choice& c) { c.selected[5] = 6; });
  check([](choice& c) { c.selected[5] = 1ll << 40; });
  check([](choice& c) { c.parents[4] = 5; });  // not selected
  check([](choice& c) { c.parents[4] = 2; });  // its own parent
  choice wide = good;
  wide.nodes = 33;
  wide.batch = 1;
  wide.selected.assign(32, 0);
  CHECK(run(wide, tree_mask_mode::query_packed, executor::host{}).statuses[0] ==
        status::invalid_parameter);
  choice shallow = good;
  shallow.depth = 0;
  CHECK(run(shallow, tree_mask_mode::query_only, executor::host{}).statuses[0] ==
        status::invalid_parameter);
}

}  // namespace
}  // namespace hunch::test::interop_sglang_tree

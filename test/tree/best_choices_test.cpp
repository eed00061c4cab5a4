// SPDX-License-Identifier: Apache-2.0

// The best fixed tree for measured acceptance, against all trees.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/tree/best_choices.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

using table = std::vector<std::vector<double>>;
using tree::path;

/// The most tokens per step over all trees of `count` nodes that contain their parents.
double best_of_all(const table& acceptance, std::int32_t count) {
  std::vector<path> all;
  for (std::size_t from = 0, depth = 0; depth < acceptance.size(); ++depth) {
    const std::size_t to = all.size();
    const std::vector<path> parents =
        depth == 0 ? std::vector<path>{{}}
                   : std::vector<path>(all.begin() + static_cast<std::ptrdiff_t>(from), all.end());
    from = to;
    for (const path& parent : parents) {
      for (std::size_t rank = 0; rank < acceptance[depth].size(); ++rank) {
        all.push_back(parent);
        all.back().push_back(static_cast<std::int32_t>(rank));
      }
    }
  }
  double best = 0.0;
  std::vector<path> chosen;
  const auto extend = [&](const auto& self, std::size_t next) -> void {
    if (std::ssize(chosen) == count) {
      best = std::max(best, tree::expected_tokens(chosen, acceptance));
      return;
    }
    for (std::size_t i = next; i < all.size(); ++i) {
      const path above(all[i].begin(), all[i].end() - 1);
      if (!above.empty() && std::ranges::find(chosen, above) == chosen.end()) { continue; }
      chosen.push_back(all[i]);
      self(self, i + 1);
      chosen.pop_back();
    }
  };
  extend(extend, 0);
  return best;
}

TEST_CASE("no tree brings more tokens, and none is without its parents") {
  dice random{1};
  for (std::int32_t round = 0; round < 60; ++round) {
    table acceptance(static_cast<std::size_t>(1 + random.below(3)));
    std::int32_t room = 0;
    std::int32_t width = 1;
    for (auto& depth : acceptance) {
      depth.resize(static_cast<std::size_t>(1 + random.below(3)));
      // Some are equal, some certain, and some later ranks are better.
      for (double& p : depth) { p = random.below(3) == 0 ? 0.25 * random.below(5) : random.unit(); }
      width *= static_cast<std::int32_t>(depth.size());
      room += width;
    }
    for (std::int32_t count = 0; count <= std::min(room, 5); ++count) {
      CAPTURE(round);
      CAPTURE(count);
      const std::vector<path> found = tree::best_choices(acceptance, count);
      REQUIRE(std::ssize(found) == count);
      const std::set<path> nodes(found.begin(), found.end());
      CHECK(std::ssize(nodes) == count);
      for (const path& node : nodes) {
        CHECK((node.size() == 1 || nodes.contains(path(node.begin(), node.end() - 1))));
      }
      CHECK(tree::expected_tokens(found, acceptance) ==
            doctest::Approx(best_of_all(acceptance, count)).epsilon(1e-12));
    }
  }
}

TEST_CASE("a tree by hand, as a literal") {
  // 0.6, 0.2; after the first: 0.3, 0.06; after the second: 0.1, 0.02; after {0, 0}: 0.27.
  const table acceptance{{0.6, 0.2}, {0.5, 0.1}, {0.9}};
  const std::vector<path> found = tree::best_choices(acceptance, 5);
  CHECK(tree::literal_of(found) == "{{0}, {1}, {0, 0}, {1, 0}, {0, 0, 0}}");
  CHECK(tree::expected_tokens(found, acceptance) == doctest::Approx(2.47));
  CHECK(tree::literal_of({}) == "{}");
  // What reads the literal reads these nodes.
  const std::vector<path> read{{0}, {1}, {0, 0}, {1, 0}, {0, 0, 0}};
  CHECK(read == found);
}

TEST_CASE("ties go to the shallower node, then to the lower rank") {
  const table certain{{1.0, 1.0}, {1.0, 1.0}};
  CHECK(tree::literal_of(tree::best_choices(certain, 4)) == "{{0}, {1}, {0, 0}, {0, 1}}");
  const table halves{{0.5, 0.25}, {0.5}};
  CHECK(tree::literal_of(tree::best_choices(halves, 2)) == "{{0}, {1}}");
}

TEST_CASE("what is no table is refused") {
  const auto message = [](const table& acceptance, std::int32_t count) -> std::string {
    try {
      tree::best_choices(acceptance, count);
    } catch (const std::invalid_argument& error) { return error.what(); }
    return "";
  };
  CHECK(message({{0.5}, {1.5}}, 1).find("1.5") != std::string::npos);
  CHECK(message({{-0.1}}, 1).find("no probability") != std::string::npos);
  CHECK(message({{0.0 / 0.0}}, 1).find("no probability") != std::string::npos);
  CHECK(message({{0.5, 0.2}, {0.5}}, 5).find("5 nodes are wanted, and the table has 4") !=
        std::string::npos);
  CHECK(message({}, 1).find("has 0") != std::string::npos);
}

}  // namespace
}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0

// The table of compositions over rows that are divided among ranks: all ranks come to the texts of
// one rank that has whole rows, driven by the host and repeated.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "../support/full.hpp"
#include "../support/table_runs.hpp"
#include "on_ranks.hpp"

namespace hunch::test::shard_text_test {
namespace {

using claims = std::vector<std::pair<std::string, bool>>;

void check_table(const shard_bounds& bounds) {
  const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
  std::vector<claims> of_rank(static_cast<std::size_t>(ranks));
  const rank_ends ends = on_ranks(ranks, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    executor::sharded executor(c, shards);
    claims& mine = of_rank[static_cast<std::size_t>(c.rank())];
    // How many drafts are accepted is a claim about the host, made where the vocabulary is small.
    table::runner run(executor, bounds.back(), 2, 3, full_run(),
                      [&](const std::string& what, bool so) {
                        if (what.find("the texts of the host") == std::string::npos) { return; }
                        mine.emplace_back(what, so);
                      });
    table::for_each_line(run);
    REQUIRE(executor.traffic().exchanges > 0);
  });
  for (const std::string& what : ends.what) { CHECK(what == ""); }
  for (const claims& mine : of_rank) {
    CHECK(mine.size() > 40);
    CHECK(mine.size() == of_rank[0].size());
    for (const auto& claim : mine) {
      INFO(claim.first);
      CHECK(claim.second);
    }
  }
}

TEST_CASE("compositions over two ranks") { check_table({0, 4096, 4200}); }
TEST_CASE("compositions over three ranks, of which one has next to nothing") {
  check_table({0, 4096, 8192, 8193});
}

}  // namespace
}  // namespace hunch::test::shard_text_test

// SPDX-License-Identifier: Apache-2.0

// The table of compositions over rows that are divided among ranks: all ranks come to the texts of
// one rank that has whole rows, driven by the host and repeated; with draft heads that each rank
// has as a whole, and with such as are divided, too.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/model/head_shards.hpp>
#include "../support/full.hpp"
#include "../support/table_runs.hpp"
#include "on_ranks.hpp"

namespace hunch::test::shard_text_test {
namespace {

/// An executor whose models have a part of their heads.
struct dividing : executor::sharded<collective::threads> {
  head_shards<collective::threads>* heads;
  std::int64_t* divided;  ///< calls of which this rank had a part, but not all

  template <class Launch>
  void divide_head(const head_rows<float>& asked, const Launch& launch) {
    (*heads)(asked, [&](const head_rows<float>& own) {
      std::int64_t more = 0;
      for (std::int32_t i = 0; i < asked.size; ++i) { more += asked.lists[i].size; }
      for (std::int32_t i = 0; i < own.size; ++i) { more -= own.lists[i].size; }
      *divided += more > 0 ? 1 : 0;
      launch(own);
    });
  }
};

using claims = std::vector<std::pair<std::string, bool>>;

/// \param heads divides the rows of draft heads; empty: they are whole.
void check_table(const shard_bounds& bounds, const shard_bounds& heads) {
  const auto ranks = static_cast<std::int32_t>(bounds.size()) - 1;
  std::vector<claims> of_rank(static_cast<std::size_t>(ranks));
  const rank_ends ends = on_ranks(ranks, [&](auto& c) {
    const vocab_shards shards = shards_of(c, bounds);
    executor::sharded executor(c, shards);
    claims& mine = of_rank[static_cast<std::size_t>(c.rank())];
    // How many drafts are accepted is a claim about the host, made where the vocabulary is small.
    const auto note = [&](const std::string& what, bool so) {
      if (what.find("the texts of the host") == std::string::npos) { return; }
      mine.emplace_back(what, so);
    };
    if (heads.empty()) {
      table::runner run(executor, bounds.back(), 2, 3, full_run(), note);
      table::for_each_line(run);
    } else {
      const vocab_shards rows = shards_of(c, heads);
      head_shards parts(c, rows);
      std::int64_t divided = 0;
      table::runner run(dividing{executor, &parts, &divided}, bounds.back(), 2, 3, full_run(),
                        note);
      table::for_each_line(run);
      REQUIRE(divided > 100);
    }
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

TEST_CASE("compositions over two ranks") { check_table({0, 4096, 4200}, {}); }
TEST_CASE("compositions over three ranks, of which one has next to nothing") {
  check_table({0, 4096, 8192, 8193}, {});
}
TEST_CASE("compositions over two ranks that have parts of the draft heads") {
  check_table({0, 4096, 4200}, {0, 1300, 4200});
}

}  // namespace
}  // namespace hunch::test::shard_text_test

// SPDX-License-Identifier: Apache-2.0

// The table of compositions by teams of threads, as a device runs it: nobody reads what a step
// makes, and the texts are those of the host, bit for bit.

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "../support/full.hpp"
#include "../support/table_runs.hpp"
#include "../support/team_executors.hpp"

namespace hunch::test {
namespace {

void check_table(std::int32_t blocks, std::int32_t ranks) {
  constexpr std::int32_t vocab = 60;
  constexpr std::int32_t batch = 2;
  constexpr std::int32_t requests = 4;
  table::runner run(hidden_threads{{{}, blocks, ranks}}, vocab, batch, requests, full_run(),
                    [](const std::string& what, bool so) {
                      INFO(what);
                      CHECK(so);
                    });
  table::for_each_line(run);
}

TEST_CASE("compositions by blocks of threads") { check_table(1, 2); }
TEST_CASE("compositions by clusters of threads") { check_table(2, 2); }

}  // namespace
}  // namespace hunch::test

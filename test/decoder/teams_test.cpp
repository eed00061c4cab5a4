// SPDX-License-Identifier: Apache-2.0

// The table of compositions by teams of threads, as a device runs it: nobody reads what a step
// makes, and the texts are those of the host, bit for bit.

#include <cstddef>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <hunch/executor/host.hpp>
#include "../support/full.hpp"
#include "../support/table_runs.hpp"
#include "../support/thread_launch.hpp"

namespace hunch::test {
namespace {

/// A host whose bodies are run by threads.
struct team_host : executor::host {
  std::int32_t blocks;
  std::int32_t ranks;

  team_host(std::int32_t of_blocks, std::int32_t of_ranks) : blocks(of_blocks), ranks(of_ranks) {}

  template <class T>
  struct resident : executor::host::buffer<T> {
    resident(team_host& h, std::size_t n) : executor::host::buffer<T>(h, n) {}
  };
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    launch_threads(blocks, ranks, count, body);
  }
};

void check_table(std::int32_t blocks, std::int32_t ranks) {
  constexpr std::int32_t vocab = 60;
  constexpr std::int32_t batch = 2;
  constexpr std::int32_t requests = 4;
  table::runner run(team_host(blocks, ranks), vocab, batch, requests, full_run(),
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

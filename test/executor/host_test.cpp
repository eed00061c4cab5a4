// SPDX-License-Identifier: Apache-2.0

// The executor of the host: what it launches is done, in order, and its memory begins as zeros.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/executor/in_order.hpp>
#include "../support/counting_host.hpp"
#include "../support/hidden_host.hpp"

namespace hunch::test {
namespace {

struct append {
  std::vector<std::int32_t>* to;
  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    if (team.rank() == 0) { to->push_back(index); }
  }
};

TEST_CASE("bodies run one after the other, and are done when a launch returns") {
  executor::host host;
  std::vector<std::int32_t> order;
  host.launch(3, append{&order});
  host.launch(0, append{&order});
  host.launch(-1, append{&order});
  host.launch(1, append{&order});
  CHECK(order == std::vector<std::int32_t>{0, 1, 2, 0});
}

struct append_more : append {
  template <Team T>
  void operator()(T& team, std::int32_t index) const {
    append::operator()(team, 10 + index);
  }
};

TEST_CASE("one each of bodies in order is one launch, where nobody looks in between") {
  const auto launches_of = [](auto executor, std::int32_t count,
                              std::vector<std::int32_t> expected) {
    using executor_type = decltype(executor);
    step_memory<executor_type> memory(executor);
    std::vector<std::int32_t> order;
    const executor_calls before = *executor.calls;
    launch_in_order(memory, count, append{&order}, append_more{{&order}}, append{&order});
    CHECK(order == expected);
    return (*executor.calls - before).launches;
  };
  CHECK(launches_of(counting<hidden_host>{}, 1, {0, 10, 0}) == 1);
  CHECK(launches_of(counting<hidden_host>{}, 2, {0, 1, 10, 11, 0, 1}) == 3);
  CHECK(launches_of(counting<>{}, 1, {0, 10, 0}) == 3);
}

TEST_CASE("memory begins as zeros, and empty buffers may be asked for") {
  executor::host host;
  const executor::host::buffer<double> some(host, 5);
  CHECK(some.size() == 5);
  for (std::size_t i = 0; i < some.size(); ++i) { CHECK(some.data()[i] == 0.0); }
  CHECK(executor::host::buffer<double>(host, 0).size() == 0);
}

TEST_CASE("a loop ends when its step says so") {
  executor::host host;
  std::int32_t again = 0;
  std::int32_t steps = 0;
  host.repeat(
      1, [&](const repeat_flag& flag) { flag.set(++steps < 4); }, &again);
  CHECK(steps == 4);
}

TEST_CASE("without a second stream launches beside others keep to the order") {
  executor::host host;
  std::vector<std::int32_t> order;
  {
    const side_stream side(host);
    side.executor().launch(2, append{&order});
    host.launch(1, append{&order});
  }
  CHECK(order == std::vector<std::int32_t>{0, 1, 0});
  CHECK(&side_stream(host).executor() == &host);
}

}  // namespace
}  // namespace hunch::test

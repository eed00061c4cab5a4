// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <engine/thread_pool.hpp>

#include "counted_new.hpp"

/// Pools, the threads that they share in turn, and those that they do not share when used at once.

namespace {

using engine::thread_pool;

/// The threads that a call runs on, the caller first.
std::vector<std::thread::id> threads_of(thread_pool& pool) {
  std::vector<std::thread::id> ids(static_cast<std::size_t>(pool.size()));
  auto body = [&](int thread) {
    ids[static_cast<std::size_t>(thread)] = std::this_thread::get_id();
  };
  pool.run(body);
  return ids;
}

}  // namespace

TEST_CASE("every thread runs the function once, and sees after a barrier what all wrote before") {
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    thread_pool pool(threads);
    std::vector<int> written(static_cast<std::size_t>(threads));
    std::vector<int> sums(static_cast<std::size_t>(threads));
    for (int round = 1; round <= 200; ++round) {
      auto body = [&](int thread) {
        written[static_cast<std::size_t>(thread)] += thread + 1;
        pool.barrier();
        int sum = 0;
        for (const int w : written) { sum += w; }
        sums[static_cast<std::size_t>(thread)] = sum;
        pool.barrier();
      };
      pool.run(body);
      const std::vector<int> expected(static_cast<std::size_t>(threads),
                                      round * threads * (threads + 1) / 2);
      REQUIRE(sums == expected);
    }
  }
}

TEST_CASE("who has waited so long that it sleeps is woken, between calls and within them") {
  using std::chrono::milliseconds;
  thread_pool pool(3);
  thread_pool unused(2);  // its thread sleeps all the time
  std::atomic<int> ran = 0;
  for (int round = 0; round < 12; ++round) {
    const int late = round % 4;  // 3: the caller, before it calls
    if (late == 3) { std::this_thread::sleep_for(milliseconds(2)); }
    auto body = [&](int thread) {
      if (thread == late) { std::this_thread::sleep_for(milliseconds(2)); }
      pool.barrier();
      ++ran;
    };
    pool.run(body);
    REQUIRE(ran == 3 * (round + 1));
  }
}

TEST_CASE("pools of a size that are used in turn share the threads, others do not") {
  thread_pool one(3);
  thread_pool other(3);
  thread_pool small(2);
  const auto ids = threads_of(one);
  CHECK(ids[0] == std::this_thread::get_id());
  for (int turn = 0; turn < 5; ++turn) {
    CHECK(threads_of(other) == ids);
    CHECK(threads_of(small)[1] != ids[1]);
    CHECK(threads_of(one) == ids);
  }
}

TEST_CASE("pools that are used at once have threads of their own") {
  thread_pool outer(2);
  thread_pool inner(2);
  std::vector<std::thread::id> outside(2), inside;
  std::atomic<bool> began = false;
  std::atomic<bool> done = false;
  std::thread user([&] {
    while (!began) { std::this_thread::yield(); }
    inside = threads_of(inner);
    done = true;
  });
  auto body = [&](int thread) {
    outside[static_cast<std::size_t>(thread)] = std::this_thread::get_id();
    began = true;
    while (!done) { std::this_thread::yield(); }  // for ever, if the other waited for this call
  };
  outer.run(body);
  user.join();
  CHECK(outside[1] != inside[1]);
}

TEST_CASE("a pool that is gone leaves the others their threads") {
  std::optional<thread_pool> first(std::in_place, 2);
  std::optional<thread_pool> second(std::in_place, 2);
  threads_of(*first);
  first.reset();
  const auto ids = threads_of(*second);
  CHECK(ids[0] != ids[1]);
  second.reset();
  thread_pool again(2);
  CHECK(threads_of(again)[0] == std::this_thread::get_id());
}

TEST_CASE("a call allocates nothing, and sizes that no machine has are refused") {
  thread_pool pool(3);
  thread_pool other(3);
  int calls = 0;
  auto body = [&](int thread) {
    if (thread == 0) { ++calls; }
  };
  const long before = test::allocation_count();
  for (int i = 0; i < 10; ++i) {
    pool.run(body);
    other.run(body);
  }
  CHECK(test::allocation_count() == before);
  CHECK(calls == 20);
  CHECK_THROWS_AS(thread_pool(0), std::invalid_argument);
  CHECK_THROWS_AS(thread_pool(257), std::invalid_argument);
}

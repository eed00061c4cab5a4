// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include <engine/thread_pool.hpp>
#include <engine/work_shares.hpp>

TEST_CASE("every block is taken once, whatever numbers of blocks follow each other") {
  for (const int threads : {1, 2, 3, 5}) {
    engine::thread_pool pool(threads);
    engine::work_shares shares(threads);
    const std::vector<int> counts = {1, 0, 7, 500, 2, 2, 31, 0, 0, 64};
    std::vector<std::vector<int>> taken;
    for (const int count : counts) { taken.emplace_back(static_cast<std::size_t>(count)); }
    for (int round = 1; round <= 50; ++round) {
      auto body = [&](int thread) {
        for (std::size_t i = 0; i < counts.size(); ++i) {
          shares.take(thread, counts[i], [&](int first, int last) {
            for (int b = first; b < last; ++b) { ++taken[i][static_cast<std::size_t>(b)]; }
          });
          if (i + 1 < counts.size()) { pool.barrier(); }
        }
      };
      pool.run(body);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        CHECK(taken[i] == std::vector<int>(static_cast<std::size_t>(counts[i]), round));
      }
    }
  }
}

TEST_CASE("a thread that is held up leaves half of its blocks to the others") {
  engine::thread_pool pool(2);
  engine::work_shares shares(2);
  std::atomic<bool> done = false;
  std::vector<int> taken(2);
  auto body = [&](int thread) {
    if (thread == 1) { done.wait(false); }
    shares.take(thread, 100, [&](int first, int last) {
      taken[static_cast<std::size_t>(thread)] += last - first;
    });
    done = true;
    done.notify_all();
  };
  pool.run(body);
  CHECK(taken == std::vector<int>{75, 25});
}

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace engine {

/// Blocks of work of which every thread of a pool has its share, and takes of the shares of others
/// when it is done: a thread that somebody else on the machine slows down holds nobody up. Most
/// blocks go to the same thread every time, whose caches know them.
class work_shares {
 public:
  explicit work_shares(int threads) : threads_{threads}, of_(static_cast<std::size_t>(threads)) {}

  /// Calls work(first, last) until all of `blocks` blocks are taken, each by one thread. On every
  /// thread, with the same numbers; between two calls all meet at a barrier of their pool.
  template <class F>
  void take(int thread, int blocks, const F& work) {
    if (threads_ == 1) { return work(0, blocks); }
    own& mine = of_[static_cast<std::size_t>(thread)];
    const int round = mine.round;
    mine.round = 1 - round;
    // Nobody looks at it before the barrier, or since the last one.
    mine.taken[1 - round].store(0, std::memory_order_relaxed);
    for (int i = 0; i < threads_; ++i) {
      const int owner = (thread + i) % threads_;
      const int begin = first_of(owner, blocks);
      const int end = first_of(owner + 1, blocks);
      const int at_once = std::clamp((end - begin) / pieces, 1, most_at_once);
      std::atomic<int>& taken = of_[static_cast<std::size_t>(owner)].taken[round];
      while (begin + taken.load(std::memory_order_relaxed) < end) {
        const int first = begin + taken.fetch_add(at_once, std::memory_order_relaxed);
        if (first >= end) { break; }
        work(first, std::min(first + at_once, end));
      }
    }
  }

 private:
  static constexpr int pieces = 6;        ///< of a share
  static constexpr int most_at_once = 8;  ///< blocks

  struct alignas(64) own {
    int round = 0;
    std::atomic<int> taken[2] = {0, 0};
  };

  int first_of(int thread, int blocks) const { return blocks * thread / threads_; }

  int threads_;
  std::vector<own> of_;
};

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace engine {

/// Blocks of work of which every thread of a pool has its share: half of it for itself, and half
/// that it offers to those that are done before it. So a thread that somebody else on the machine
/// slows down holds nobody up for long, and most blocks go to the same thread every time, whose
/// caches know them. Counting what is offered takes a line of memory from one processor to another
/// and back; the first half hides that.
class work_shares {
 public:
  explicit work_shares(int threads)
      : threads_{threads},
        rounds_of_(static_cast<std::size_t>(threads)),
        of_(2 * static_cast<std::size_t>(threads)) {}

  /// Calls work(first, last) until all of `blocks` blocks are taken, each by one thread. On every
  /// thread, with the same numbers; between two calls all meet at a barrier of their pool.
  template <class F>
  void take(int thread, int blocks, const F& work) {
    if (threads_ == 1) { return work(0, blocks); }
    const int round = rounds_of_[static_cast<std::size_t>(thread)].number;
    rounds_of_[static_cast<std::size_t>(thread)].number = 1 - round;
    const int begin = first_of(thread, blocks);
    const int end = first_of(thread + 1, blocks);
    // On its way while this thread works at what is its own.
    own& mine = of_[static_cast<std::size_t>(2 * thread + round)];
    __builtin_prefetch(&mine, 1);
    if (const int kept = kept_of(begin, end); kept > begin) { work(begin, kept); }
    for (int i = 0; i < threads_; ++i) {
      const int owner = (thread + i) % threads_;
      take_of(owner, round, blocks, work);
    }
    // Nobody looks at it before the barrier, or since the last one.
    of_[static_cast<std::size_t>(2 * thread + 1 - round)].taken.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr int pieces = 3;        ///< of what is offered
  static constexpr int most_at_once = 8;  ///< blocks

  struct alignas(64) own {
    std::atomic<int> taken = 0;
  };
  struct alignas(64) rounds {
    int number = 0;
  };

  /// Takes of the share of `owner` until nothing is left of it.
  template <class F>
  void take_of(int owner, int round, int blocks, const F& work) {
    const int end = first_of(owner + 1, blocks);
    const int begin = kept_of(first_of(owner, blocks), end);
    const int at_once = std::clamp((end - begin) / pieces, 1, most_at_once);
    std::atomic<int>& taken = of_[static_cast<std::size_t>(2 * owner + round)].taken;
    while (begin + taken.load(std::memory_order_relaxed) < end) {
      const int first = begin + taken.fetch_add(at_once, std::memory_order_relaxed);
      if (first >= end) { break; }
      work(first, std::min(first + at_once, end));
    }
  }
  /// The end of the half of a share that its owner does not offer to others.
  static int kept_of(int begin, int end) { return begin + (end - begin) / 2; }

  int first_of(int thread, int blocks) const { return blocks * thread / threads_; }

  int threads_;
  std::vector<rounds> rounds_of_;  ///< [threads]
  std::vector<own> of_;            ///< [threads][2] one for every other round
};

}  // namespace engine

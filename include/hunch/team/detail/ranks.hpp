// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

/// \file
/// How the threads of a simulated team run. As threads of the system where a sanitizer watches them
/// or there is nothing else. Otherwise by turns on the calling thread, each with a stack of its
/// own: to pass the turn takes a hundredth of what it takes to wake a thread. One that misses a
/// barrier reads what is old in one launch and what is new in the next, for ranks go on from the
/// first to the last in one, and from the last to the first in the other.
///
/// `HUNCH_TEAMS_BY_TURNS` fixes the choice: 0 or 1.

#if !defined(HUNCH_TEAMS_BY_TURNS)
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define HUNCH_TEAMS_BY_TURNS 0
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define HUNCH_TEAMS_BY_TURNS 0
#endif
#endif
#if !defined(HUNCH_TEAMS_BY_TURNS)
#if defined(__linux__) && defined(__GLIBC__)
#define HUNCH_TEAMS_BY_TURNS 1
#else
#define HUNCH_TEAMS_BY_TURNS 0
#endif
#endif

#if HUNCH_TEAMS_BY_TURNS
#include <cstddef>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>
#else
#include <barrier>
#include <thread>
#include <vector>
#endif

namespace hunch::team::detail {

#if HUNCH_TEAMS_BY_TURNS

/// A stack, below which nothing may be read or written.
class own_stack {
 public:
  own_stack()
      : memory_(mmap(nullptr, guard + bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0)) {
    if (memory_ == MAP_FAILED) { throw std::bad_alloc(); }
    mprotect(memory_, guard, PROT_NONE);
  }
  own_stack(own_stack&& o) noexcept : memory_(std::exchange(o.memory_, MAP_FAILED)) {}
  own_stack& operator=(own_stack&&) = delete;
  ~own_stack() {
    if (memory_ != MAP_FAILED) { munmap(memory_, guard + bytes); }
  }

  stack_t view() const { return {static_cast<std::byte*>(memory_) + guard, 0, bytes}; }

 private:
  static constexpr std::size_t guard = 64 * 1024;
  static constexpr std::size_t bytes = 1024 * 1024;

  void* memory_;
};

/// Ranks that run by turns: one goes on until it passes the turn, or ends.
class turns {
 public:
  template <class Run>
  static void take(std::int32_t ranks, const Run& run) {
    turns all(ranks, &run,
              [](const void* of, std::int32_t rank) { (*static_cast<const Run*>(of))(rank); });
    all.go();
  }

  /// The next rank goes on.
  static void pass() {
    turns& all = *current();
    const std::int32_t mine = all.rank_;
    all.next();
    if (all.rank_ != mine) { swapcontext(&all.of(mine), &all.of(all.rank_)); }
  }

 private:
  using function = void (*)(const void*, std::int32_t);

  turns(std::int32_t ranks, const void* run, function call)
      : run_(run),
        call_(call),
        left_(ranks),
        contexts_(static_cast<std::size_t>(ranks)),
        ended_(static_cast<std::size_t>(ranks), false) {
    thread_local std::vector<own_stack> stacks;  // of launches before
    while (stacks.size() < contexts_.size()) { stacks.emplace_back(); }
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      getcontext(&contexts_[i]);
      contexts_[i].uc_stack = stacks[i].view();
      contexts_[i].uc_link = nullptr;
      makecontext(&contexts_[i], &turns::begin, 0);
    }
    thread_local std::int32_t step = -1;
    step_ = step = -step;
    rank_ = step_ > 0 ? 0 : ranks - 1;
  }

  void go() {
    turns* const before = std::exchange(current(), this);
    swapcontext(&caller_, &of(rank_));
    current() = before;
  }
  /// On the stack of a rank.
  static void begin() noexcept {
    turns& all = *current();
    all.call_(all.run_, all.rank_);
    all.ended_[static_cast<std::size_t>(all.rank_)] = true;
    if (--all.left_ == 0) {
      setcontext(&all.caller_);
    } else {
      all.next();
      setcontext(&all.of(all.rank_));
    }
  }

  void next() {
    const auto ranks = static_cast<std::int32_t>(contexts_.size());
    do { rank_ = (rank_ + step_ + ranks) % ranks; } while (ended_[static_cast<std::size_t>(rank_)]);
  }
  ucontext_t& of(std::int32_t rank) { return contexts_[static_cast<std::size_t>(rank)]; }

  static turns*& current() {
    thread_local turns* all = nullptr;
    return all;
  }

  const void* run_;
  function call_;
  std::int32_t left_;
  std::int32_t step_ = 1;
  std::int32_t rank_ = 0;  ///< whose turn it is
  std::vector<ucontext_t> contexts_;
  std::vector<bool> ended_;
  ucontext_t caller_{};
};

/// As `std::barrier`.
class rank_barrier {
 public:
  explicit rank_barrier(std::ptrdiff_t ranks) : ranks_(ranks) {}

  void arrive_and_wait() {
    const std::uint64_t phase = phase_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++phase_;
    }
    while (phase_ == phase) { turns::pass(); }
  }

 private:
  std::ptrdiff_t ranks_;
  std::ptrdiff_t arrived_ = 0;
  std::uint64_t phase_ = 0;
};

/// Returns when `done()`, which another rank makes true.
template <class Done>
void wait_until(const Done& done) {
  while (!done()) { turns::pass(); }
}

/// run(rank) for each rank below `ranks`, side by side. Returns when all are done.
template <class Run>
void run_ranks(std::int32_t ranks, const Run& run) {
  if (ranks == 1) { return run(0); }
  turns::take(ranks, run);
}

#else

using rank_barrier = std::barrier<>;

template <class Done>
void wait_until(const Done& done) {
  while (!done()) { std::this_thread::yield(); }
}

template <class Run>
void run_ranks(std::int32_t ranks, const Run& run) {
  std::vector<std::thread> threads;
  for (std::int32_t rank = 1; rank < ranks; ++rank) { threads.emplace_back(run, rank); }
  run(0);  // the calling thread is one of them
  for (std::thread& t : threads) { t.join(); }
}

#endif

}  // namespace hunch::team::detail

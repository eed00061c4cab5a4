// SPDX-License-Identifier: Apache-2.0
#include <engine/thread_pool.hpp>

#include <stdexcept>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace engine {
namespace {

/// How long a thread looks before it sleeps. Within a call about 200 microseconds: whoever sleeps
/// at a barrier is woken some 50 microseconds late, and then all the others wait for him at the
/// next. Between calls about 20: shorter than what a caller does between two steps.
constexpr int spins_within = 4000;
constexpr int spins_between = 400;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Returns when `value` is no longer `old`.
void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) { return; }
    pause();
  }
  while (value.load(std::memory_order_acquire) == old) {
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

thread_pool::thread_pool(int threads) : size_{threads} {
  if (threads < 1 || threads > 256) {
    throw std::invalid_argument("engine::thread_pool: threads must be in [1, 256]");
  }
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

thread_pool::~thread_pool() {
  stopping_ = true;
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  for (std::thread& worker : workers_) { worker.join(); }
}

void thread_pool::start(function f, void* context) {
  function_ = f;
  context_ = context;
  if (size_ > 1) {
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
  }
  f(context, 0);
  barrier();
}

void thread_pool::work(int thread) {
  for (std::uint32_t seen = 0;; ++seen) {
    await_change(calls_, seen, spins_between);
    if (stopping_) { return; }
    function_(context_, thread);
    barrier();
  }
}

void thread_pool::barrier() {
  if (size_ == 1) { return; }
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  } else {
    await_change(phase_, phase, spins_within);
  }
}

}  // namespace engine

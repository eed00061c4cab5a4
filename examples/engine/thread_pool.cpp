// SPDX-License-Identifier: Apache-2.0
#include <engine/thread_pool.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace engine {
namespace {

using std::chrono::microseconds;

constexpr int max_threads = 256;

/// How long a thread looks before it sleeps: whoever sleeps is woken some 10 to 50 microseconds
/// late. At a barrier all the others wait for him. Between two calls a shorter time, for on a
/// machine whose processors come in pairs the one that looks slows down the one that works: a third
/// of the speed, so that it may look for some three times as long as it would be late.
constexpr microseconds patience_within{200};
constexpr microseconds patience_between{200};

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

/// A number that threads wait for to change. Who changes it calls the kernel only if somebody
/// sleeps: `std::atomic::notify_all` does so, too, while anyone sleeps at another atomic that it
/// happens to count together with this one, such as the threads of a pool that is not used.
class alignas(64) thread_pool::signal {
 public:
  /// Seen by whoever has seen a later value, with all that was written before.
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  void change() {
    // In one order with `asleep_`: either this sees the sleeper, or he sees the change.
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) > 0) { value_.notify_all(); }
  }

  /// Returns when the value is no longer `old`.
  void await_change(std::uint32_t old, microseconds patience) {
    constexpr int looks = 16;  // for one at the clock
    const auto end = std::chrono::steady_clock::now() + patience;
    do {
      for (int i = 0; i < looks; ++i) {
        if (value() != old) { return; }
        pause();
      }
    } while (std::chrono::steady_clock::now() < end);
    asleep_.fetch_add(1, std::memory_order_seq_cst);
    while (value_.load(std::memory_order_seq_cst) == old) {
      value_.wait(old, std::memory_order_seq_cst);
    }
    asleep_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> value_{0};
  std::atomic<int> asleep_{0};  ///< threads that no longer look
};

/// Threads that wait for work together.
class thread_pool::crew {
 public:
  explicit crew(int threads) : size_{threads} {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int thread = 1; thread < threads; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  ~crew() {
    stopping_ = true;
    calls_.change();
    for (std::thread& worker : workers_) { worker.join(); }
  }

  void start(function f, void* context) {
    function_ = f;
    context_ = context;
    calls_.change();
    f(context, 0);
    barrier();
  }

  void barrier() {
    const std::uint32_t phase = phase_.value();
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(size_)) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.change();
    } else {
      phase_.await_change(phase, patience_within);
    }
  }

 private:
  void work(int thread) {
    for (std::uint32_t seen = 0;; ++seen) {
      calls_.await_change(seen, patience_between);
      if (stopping_) { return; }
      function_(context_, thread);
      barrier();
    }
  }

  int size_;
  function function_ = nullptr;
  void* context_ = nullptr;
  bool stopping_ = false;
  signal calls_;
  signal phase_;
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  std::vector<std::thread> workers_;
};

/// As many crews as there are pools of this size. Who needs one takes the one that worked last.
class thread_pool::crews_of_a_size {
 public:
  static std::shared_ptr<crews_of_a_size> of(int size) {
    static std::mutex mutex;
    static std::array<std::weak_ptr<crews_of_a_size>, max_threads + 1> all;
    const std::lock_guard lock(mutex);
    std::weak_ptr<crews_of_a_size>& known = all[static_cast<std::size_t>(size)];
    std::shared_ptr<crews_of_a_size> crews = known.lock();
    if (!crews) { known = crews = std::make_shared<crews_of_a_size>(); }
    return crews;
  }

  void add(int size) {
    auto one = std::make_unique<crew>(size);
    const std::lock_guard lock(mutex_);
    idle_.reserve(++count_);
    // The one that waits longest.
    idle_.insert(idle_.begin(), std::move(one));
  }
  void remove() {
    std::unique_ptr<crew> one;  // joined without the lock
    const std::lock_guard lock(mutex_);
    --count_;
    one = std::move(idle_.front());
    idle_.erase(idle_.begin());
  }
  std::unique_ptr<crew> take() {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<crew> one = std::move(idle_.back());
    idle_.pop_back();
    return one;
  }
  void give(std::unique_ptr<crew> one) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(one));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<crew>> idle_;
  std::size_t count_ = 0;
};

thread_pool::thread_pool(int threads) : size_{threads} {
  if (threads < 1 || threads > max_threads) {
    throw std::invalid_argument("engine::thread_pool: threads must be in [1, 256]");
  }
  if (threads == 1) { return; }
  crews_ = crews_of_a_size::of(threads);
  crews_->add(threads);
}

thread_pool::~thread_pool() {
  if (crews_) { crews_->remove(); }
}

void thread_pool::start(function f, void* context) {
  if (!crews_) {
    f(context, 0);
    return;
  }
  std::unique_ptr<crew> mine = crews_->take();
  at_work_ = mine.get();
  mine->start(f, context);
  at_work_ = nullptr;
  crews_->give(std::move(mine));
}

void thread_pool::barrier() {
  if (at_work_ != nullptr) { at_work_->barrier(); }
}

}  // namespace engine

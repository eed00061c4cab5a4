// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace engine {

/// A few threads that run one function together and meet at barriers inside it.
///
/// Between two calls a worker spins for some microseconds, then parks: on a virtual machine whose
/// two processors are both spun on, the thread that does the work in between loses a third of its
/// speed. Nothing here allocates after construction.
class thread_pool {
 public:
  /// `threads` includes the caller. \throws std::invalid_argument unless 1 <= threads <= 256.
  explicit thread_pool(int threads);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool();

  int size() const { return size_; }

  /// Calls f(thread) on every thread, thread in [0, size), and returns when all are done.
  /// `f` must not throw.
  template <class F>
  void run(F& f) {
    start([](void* context, int thread) { (*static_cast<F*>(context))(thread); }, &f);
  }

  /// Only inside `run`, on every thread: waits for all. Writes before it are seen after it.
  void barrier();

 private:
  using function = void (*)(void*, int);

  void start(function f, void* context);
  void work(int thread);

  int size_;
  function function_ = nullptr;
  void* context_ = nullptr;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> calls_{0};
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  std::vector<std::thread> workers_;
};

}  // namespace engine

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace engine {

/// A few threads that run one function together and meet at barriers inside it.
///
/// Pools of one size that are used in turn, as a target's and its drafter's are, share the same
/// threads: whose threads have just worked finds them awake, and no two pools look for work on the
/// processors of each other. Pools that are used at once, from several threads of the caller, have
/// their own. Nothing here allocates after construction.
class thread_pool {
 public:
  /// `threads` includes the caller. \throws std::invalid_argument unless 1 <= threads <= 256.
  explicit thread_pool(int threads);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool();

  int size() const { return size_; }

  /// Calls f(thread) on every thread, thread in [0, size), and returns when all are done. One call
  /// of a pool at a time. `f` must not throw.
  template <class F>
  void run(F& f) {
    start([](void* context, int thread) { (*static_cast<F*>(context))(thread); }, &f);
  }

  /// Only inside `run`, on every thread: waits for all. Writes before it are seen after it.
  void barrier();

 private:
  class signal;
  class crew;
  class crews_of_a_size;
  using function = void (*)(void*, int);

  void start(function f, void* context);

  int size_;
  std::shared_ptr<crews_of_a_size> crews_;
  crew* at_work_ = nullptr;  ///< while `run` runs
};

}  // namespace engine

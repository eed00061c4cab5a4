// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <hunch/executor/host.hpp>

namespace hunch::test {

/// A host that runs what it is given on a thread of its own, in order: `launch` and `repeat` return
/// before it has run, as on a device. An error of a loop is thrown by the next `synchronize`.
class threaded_host {
 public:
  threaded_host() : queue_(std::make_shared<queue>()) {}

  template <class T>
  struct buffer : executor::host::buffer<T> {
    buffer(threaded_host& of, std::size_t n) : executor::host::buffer<T>(of.queue_->host, n) {}
  };
  template <class T>
  struct resident : buffer<T> {
    using buffer<T>::buffer;
  };

  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    queue_->run([count, body] { executor::host{}.launch(count, body); });
  }
  void synchronize() { queue_->drain(); }
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    synchronize();
    executor::host{}.upload(to, from, n);
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    upload(to, from, n);
  }
  /// \param step is called by the thread, with what it refers to.
  template <class Step>
  void repeat(std::uint64_t shape, Step step, std::int32_t* again) {
    ++*loops;
    queue_->run([shape, step, again] { executor::host{}.repeat(shape, step, again); });
  }

  std::shared_ptr<std::int64_t> loops = std::make_shared<std::int64_t>(0);  ///< so far

 private:
  class queue {
   public:
    queue() : worker_([this] { work(); }) {}
    ~queue() {
      {
        const std::lock_guard lock(mutex_);
        ends_ = true;
      }
      changed_.notify_all();
      worker_.join();
    }

    void run(std::function<void()> task) {
      if (mine() == this) { return task(); }
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      changed_.notify_all();
    }
    void drain() {
      if (mine() == this) { return; }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return tasks_.empty(); });
      if (error_ != nullptr) { std::rethrow_exception(std::exchange(error_, nullptr)); }
    }

    executor::host host;

   private:
    /// The queue that the calling thread works for.
    static const queue*& mine() {
      static thread_local const queue* of = nullptr;
      return of;
    }

    void work() {
      mine() = this;
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
        if (tasks_.empty()) { return; }
        const std::function<void()> task = tasks_.front();
        lock.unlock();
        std::exception_ptr error;
        try {
          task();
        } catch (...) { error = std::current_exception(); }
        lock.lock();
        if (error != nullptr) { error_ = error; }
        tasks_.pop_front();
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    std::exception_ptr error_;
    bool ends_ = false;
    std::thread worker_;  // last: it uses all of the others
  };

  std::shared_ptr<queue> queue_;
};

static_assert(ResidentExecutor<threaded_host>);

}  // namespace hunch::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HUNCH_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define HUNCH_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HUNCH_ADDRESS_SANITIZER
#endif
#if defined(__SANITIZE_THREAD__)
#define HUNCH_THREAD_SANITIZER
#endif
#if defined(HUNCH_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(HUNCH_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace hunch::executor::detail {

/// A function with a stack of its own, which may wait in the middle and go on later: so one thread
/// runs the bodies of a launch side by side, each up to what it waits for. What it runs does not
/// throw. It is resumed by the thread that started it.
class fiber {
 public:
  fiber() : stack_(std::make_unique_for_overwrite<char[]>(stack_bytes)) {
    if (getcontext(&own_) != 0) { throw std::bad_alloc(); }
    own_.uc_stack.ss_sp = stack_.get();
    own_.uc_stack.ss_size = stack_bytes;
    own_.uc_link = nullptr;
    // makecontext hands over integers only.
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&own_, reinterpret_cast<void (*)()>(&enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
#if defined(HUNCH_THREAD_SANITIZER)
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  ~fiber() {
#if defined(HUNCH_THREAD_SANITIZER)
    __tsan_destroy_fiber(tsan_);
#endif
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Runs run(what) until it waits or ends. Not while it waits.
  void start(void (*run)(void*), void* what) {
    run_ = run;
    what_ = what;
    resume();
  }
  /// Goes on after `wait`.
  void resume() {
#if defined(HUNCH_THREAD_SANITIZER)
    tsan_caller_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_, 0);
#endif
#if defined(HUNCH_ADDRESS_SANITIZER)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
    swapcontext(&caller_, &own_);
#if defined(HUNCH_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }
  /// Whether what was started waits, and has not ended.
  bool waits() const { return waits_; }

  /// Called by what it runs: returns in the next `resume`.
  void wait() {
    waits_ = true;
    leave();
    waits_ = false;
  }

 private:
  static constexpr std::size_t stack_bytes = 256 * 1024;

  static void enter(unsigned low, unsigned high) {
    const auto address = static_cast<std::uintptr_t>(low) | static_cast<std::uintptr_t>(high) << 32;
    fiber& self = *reinterpret_cast<fiber*>(address);
#if defined(HUNCH_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(nullptr, &self.caller_stack_, &self.caller_bytes_);
#endif
    for (;;) {
      self.run_(self.what_);
      self.leave();
    }
  }

  void leave() {
#if defined(HUNCH_THREAD_SANITIZER)
    __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
#if defined(HUNCH_ADDRESS_SANITIZER)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, caller_stack_, caller_bytes_);
#endif
    swapcontext(&own_, &caller_);
#if defined(HUNCH_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(fake, &caller_stack_, &caller_bytes_);
#endif
  }

  std::unique_ptr<char[]> stack_;
  ucontext_t own_;
  ucontext_t caller_;
  void (*run_)(void*) = nullptr;
  void* what_ = nullptr;
  bool waits_ = false;
#if defined(HUNCH_ADDRESS_SANITIZER)
  const void* caller_stack_ = nullptr;
  std::size_t caller_bytes_ = 0;
#endif
#if defined(HUNCH_THREAD_SANITIZER)
  void* tsan_ = nullptr;
  void* tsan_caller_ = nullptr;
#endif
};

}  // namespace hunch::executor::detail

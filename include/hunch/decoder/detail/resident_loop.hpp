// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/detail/repeat_bodies.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/executor/executor.hpp>

namespace hunch {

/// A step that an executor repeats, as its host sees it: which requests there are, whether a loop
/// runs, what has come out.
/// \tparam Step has `where()`, `requests()`, `ring()` and `take(slot)` of a `decoding_step`.
template <class Step, class E>
class resident_loop {
 public:
  /// \param step outlives this, as `executor` does. \param entries that a step may write to a ring.
  /// \param owner what messages begin with; `options` where it has its `max_batch`.
  resident_loop(Step& step, E& executor, std::int32_t max_batch, std::int32_t entries,
                const char* owner, const char* options)
      : step_(&step),
        executor_(&executor),
        max_batch_(max_batch),
        entries_(entries),
        loop_(step.where(), 1),
        again_(step.where(), 1),
        signals_(executor, 1),
        slots_(max_batch, owner, options),
        cancelled_(static_cast<std::size_t>(max_batch), false) {
    *signals_.data() = {};
  }
  resident_loop(const resident_loop&) = delete;
  resident_loop& operator=(const resident_loop&) = delete;
  /// The loop has ended.
  ~resident_loop() {
    if constexpr (requires(E & e) { e.forget(again_.data()); }) {
      executor_->forget(again_.data());
    }
  }

  /// Adds a request by put(slot, id), which writes it to the inbox. \throws what
  /// `request_slots::require_room` does.
  template <class Put>
  request_id add(Put&& put) {
    slots_.require_room();
    const std::int32_t slot = slots_.first_free();
    const request_id id = slots_.admit(slot);
    cancelled_[index(slot)] = false;
    put(slot, id);
    if (slot >= shape_) { stop(); }  // a step goes over the first `shape_` slots
    return id;
  }

  /// Ends a request; by release(slot) where no loop runs that does it.
  template <class Release>
  bool cancel(request_id id, Release&& release) {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0 || cancelled_[index(slot)]) { return false; }
    if (runs()) {
      step_->requests().cancel(slot, id);
      cancelled_[index(slot)] = true;
      return true;
    }
    executor_->synchronize();
    step_->take(slot);  // no loop takes it later
    release(slot);
    step_->ring().take(slot, [](const ring_entry&) {});
    slots_.release(slot);
    return true;
  }

  /// Whether the end of a request, or of the one in a slot, has not been polled.
  bool uses(std::int32_t slot) const { return slots_.uses(slot); }
  bool has(request_id id) const { return slots_.find(id) >= 0; }
  std::int32_t running() const {
    std::int32_t count = 0;
    for (std::int32_t slot = 0; slot < max_batch_; ++slot) {
      count += uses(slot) && !cancelled_[index(slot)] ? 1 : 0;
    }
    return count;
  }
  bool runs() const { return kernel::load_acquire(&signals_.data()->ended) < started_; }

  /// Starts a loop of at most `max_steps` steps one_step(slots) over the first slots, if none runs
  /// and there is something to do. \throws what a step does. \param one_step is copied.
  template <class OneStep>
  void run(std::int64_t max_steps, const OneStep& one_step) {
    if (runs() || max_steps < 1 || !can_step()) { return; }
    shape_ = used_slots();
    ++started_;
    try {
      step_->where().launch(shape_, kernel::begin_run{.in = step_->requests().view(),
                                                      .loop = loop_.data(),
                                                      .number = started_,
                                                      .max_steps = max_steps});
      // A copy: an executor may take steps when this has returned.
      executor_->repeat(
          static_cast<std::uint64_t>(shape_),
          [this, slots = shape_, one_step] {
            one_step(slots);
            decide(slots);
          },
          again_.data());
    } catch (...) {
      --started_;
      throw;
    }
  }

  /// Asks the loop to end after its present step.
  void stop() { kernel::store_release(&signals_.data()->stop, started_); }
  void wait() {
    stop();
    executor_->synchronize();
  }

  /// Calls use(entry) for what has come out, but of requests that were cancelled.
  template <class Use>
  void poll(Use&& use) {
    for (std::int32_t slot = 0; slot < max_batch_; ++slot) {
      step_->ring().take(slot, [&](const ring_entry& entry) {
        const bool dropped = cancelled_[index(slot)];
        if (entry.finish != finish_reason::none) { slots_.release(slot); }
        if (!dropped) { use(entry); }
      });
    }
  }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  void decide(std::int32_t slots) {
    step_->where().launch(1, kernel::decide_repeat{.in = step_->requests().view(),
                                                   .slots = slots,
                                                   .out = step_->ring(),
                                                   .shared = signals_.data(),
                                                   .loop = loop_.data(),
                                                   .again = again_.data(),
                                                   .max_new_entries = entries_});
  }

  bool can_step() const {
    const rings& out = step_->ring();
    bool any = false;
    for (std::int32_t slot = 0; slot < max_batch_; ++slot) {
      if (!uses(slot)) { continue; }
      if (!out.has_room(slot, kernel::load_acquire(out.written + slot), entries_)) { return false; }
      any = true;
    }
    return any;
  }

  /// The slots that a step goes over: those in use, rounded up so that few shapes occur.
  std::int32_t used_slots() const {
    std::int32_t used = 0;
    for (std::int32_t slot = 0; slot < max_batch_; ++slot) { used = uses(slot) ? slot + 1 : used; }
    std::int32_t size = 1;
    while (size < used) { size *= 2; }
    return std::min(size, max_batch_);
  }

  Step* step_;
  E* executor_;
  std::int32_t max_batch_;
  std::int32_t entries_;
  typename Step::memory::template buffer<kernel::loop_state> loop_;
  typename Step::memory::template buffer<std::int32_t> again_;
  typename E::template buffer<kernel::loop_signals> signals_;
  request_slots slots_;
  std::vector<bool> cancelled_;  ///< [max_batch]
  std::int64_t started_ = 0;     ///< loops so far
  std::int32_t shape_ = 0;       ///< slots of the last one
};

}  // namespace hunch

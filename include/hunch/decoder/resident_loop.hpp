// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/detail/repeat_bodies.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/executor/executor.hpp>

namespace hunch {

/// A model and a step that an executor repeats, as their host sees it: which requests there are,
/// whether a loop runs, what has come out. One host thread at a time uses it.
/// \tparam Derived has `one_step(slots)`: launches and calls of the model over the first slots,
///         always the same, and `release(slot)`, which drops what a slot has between two loops.
/// \tparam Step has the type `memory`, and `where()`, `requests()`, `ring()`, `take(slot)` and
///         `stats()` of a `decoding_step`; its rings wait.
template <class Derived, class Model, class Step, class E>
class resident_loop {
  static_assert(ResidentExecutor<E>,
                "hunch: a resident loop needs an executor that models hunch::ResidentExecutor, "
                "such as executor::host or executor::cuda");

 public:
  resident_loop(const resident_loop&) = delete;
  resident_loop& operator=(const resident_loop&) = delete;

  /// Ends a request, and drops what was not polled of it. Does not wait for a loop that runs: it
  /// ends the request in one of its next steps, and the slot is free then. False if it is not
  /// running, or its end has been polled.
  bool cancel(request_id id) {
    const std::int32_t slot = slots_.find(id);
    if (slot < 0 || cancelled_[index(slot)]) { return false; }
    if (runs()) {
      step_.requests().cancel(slot, id);
      cancelled_[index(slot)] = true;
      return true;
    }
    executor_.synchronize();
    step_.take(slot);  // no loop takes it later
    self().release(slot);
    step_.ring().take(slot, [](const ring_entry&) {});
    slots_.release(slot);
    return true;
  }

  /// Requests whose end has not been polled, without those that were cancelled.
  std::int32_t running() const {
    std::int32_t count = 0;
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      count += uses(slot) && !cancelled_[index(slot)] ? 1 : 0;
    }
    return count;
  }

  /// Whether a loop is under way, as far as the host knows.
  bool runs() const { return kernel::load_acquire(&signals_.data()->ended) < started_; }

  /// Starts a loop of at most `max_steps` steps, unless one runs, and need not wait for it. It ends
  /// by itself when every request has ended, or one of them has no room in its ring for what a step
  /// may write: `poll`, and run again.
  /// \throws std::logic_error if the logits of a row have moved, and what models throw in a step or
  ///         while it is recorded: the next run repeats the step.
  void run(std::int64_t max_steps = std::int64_t{1} << 40) {
    if (runs() || max_steps < 1 || !can_step()) { return; }
    shape_ = used_slots();
    ++started_;
    try {
      step_.where().launch(shape_, kernel::begin_run{.in = step_.requests().view(),
                                                     .loop = loop_.data(),
                                                     .number = started_,
                                                     .max_steps = max_steps});
      // An executor may take steps when this has returned.
      executor_.repeat(
          static_cast<std::uint64_t>(shape_),
          [this, slots = shape_](const auto& again) {
            self().one_step(slots);
            decide(slots, again);
          },
          again_.data());
    } catch (...) {
      --started_;
      throw;
    }
  }

  /// Asks the loop to end after its present step.
  void stop() { kernel::store_release(&signals_.data()->stop, started_); }

  /// Asks the loop to end and waits for it.
  void wait() {
    stop();
    executor_.synchronize();
  }

  /// Calls use(entry) for every `ring_entry` that has come out: tokens, and the end of every
  /// request, those of one request in order. May be called while the loop runs; does not wait.
  /// `use` does not throw and does not call this object.
  template <class Use>
  void poll(Use&& use) {
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      step_.ring().take(slot, [&](const ring_entry& entry) {
        const bool dropped = cancelled_[index(slot)];
        if (entry.finish != finish_reason::none) { slots_.release(slot); }
        if (!dropped) { use(entry); }
      });
    }
  }

  /// Counters since construction; ends the loop as `wait` does. Times are not measured, rows of the
  /// model include padding on no executor.
  auto stats() {
    wait();
    return step_.stats();
  }

  E& executor() { return executor_; }

 protected:
  /// \param make_step(executor, model) makes the step. \param entries that it may write to a ring.
  /// \param owner what messages begin with; `options` where it has its `max_batch`.
  template <class MakeStep>
  resident_loop(Model&& model, E&& executor, const MakeStep& make_step, std::int32_t max_batch,
                std::int32_t entries, const char* owner, const char* options)
      : model_(std::forward<Model>(model)),
        executor_(std::move(executor)),
        step_(make_step(executor_, model_)),
        entries_(entries),
        loop_(step_.where(), 1),
        again_(step_.where(), 1),
        signals_(executor_, 1),
        slots_(max_batch, owner, options),
        cancelled_(static_cast<std::size_t>(max_batch), false) {
    *signals_.data() = {};
  }
  /// The loop has ended.
  ~resident_loop() {
    if constexpr (requires(E & e) { e.forget(again_.data()); }) { executor_.forget(again_.data()); }
  }

  /// Adds a request by put(slot, id), which writes it to the inbox. \throws what
  /// `request_slots::require_room` does.
  template <class Put>
  request_id add_by(Put&& put) {
    slots_.require_room();
    const std::int32_t slot = slots_.first_free();
    const request_id id = slots_.admit(slot);
    cancelled_[index(slot)] = false;
    put(slot, id);
    if (slot >= shape_) { stop(); }  // a step goes over the first `shape_` slots
    return id;
  }

  /// Runs a request to its end, by write(text, entry) for each of its tokens. What other requests
  /// emit meanwhile is lost. \throws what `run` does; then the request is cancelled.
  template <class Write>
  finished_text run_to_end(request_id id, std::vector<token> text, const Write& write) {
    finished_text out;
    out.tokens = std::move(text);
    try {
      while (slots_.find(id) >= 0) {
        run();
        executor_.synchronize();
        poll([&](const ring_entry& e) {
          if (e.id != id) { return; }
          if (e.t != no_token) { write(out.tokens, e); }
          out.finish = e.finish;
          out.status = e.status;
        });
      }
    } catch (...) {
      cancel(id);
      throw;
    }
    return out;
  }

  /// Whether the end of the request in a slot has not been polled.
  bool uses(std::int32_t slot) const { return slots_.uses(slot); }

  Model model_;
  E executor_;
  Step step_;

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  Derived& self() { return static_cast<Derived&>(*this); }

  template <class Condition>
  void decide(std::int32_t slots, const Condition& again) {
    step_.where().launch(1, kernel::decide_repeat<Condition>{.in = step_.requests().view(),
                                                             .slots = slots,
                                                             .out = step_.ring(),
                                                             .shared = signals_.data(),
                                                             .loop = loop_.data(),
                                                             .again = again,
                                                             .max_new_entries = entries_});
  }

  bool can_step() const {
    const rings& out = step_.ring();
    bool any = false;
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      if (!uses(slot)) { continue; }
      const std::int64_t written = kernel::load_acquire(out.written + slot);
      if (!out.has_room(written, out.read[slot], entries_)) { return false; }
      any = true;
    }
    return any;
  }

  /// The slots that a step goes over: those in use, rounded up so that few shapes occur.
  std::int32_t used_slots() const {
    std::int32_t used = 0;
    for (std::int32_t slot = 0; slot < slots_.size(); ++slot) {
      used = uses(slot) ? slot + 1 : used;
    }
    std::int32_t size = 1;
    while (size < used) { size *= 2; }
    return std::min(size, slots_.size());
  }

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

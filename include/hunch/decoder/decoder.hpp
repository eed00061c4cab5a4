// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include <hunch/decoder/decoder_options.hpp>
#include <hunch/decoder/decoding_step.hpp>
#include <hunch/decoder/detail/host_requests.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch {

/// Speculative decoding, composed at compile time from a target model and four policies, and driven
/// by the host.
///
/// Everything before the commit of a step (see `decoding_step`) is staged: a model that throws
/// leaves the decoder as it was, and the step can be repeated with the same result. Requests join
/// and can be cancelled between steps. The text of a request depends on its prompt, its parameters
/// and its seed, and not on the batch.
///
/// Grammars, stop strings and log-probabilities need the host within a step: it waits for them in
/// steps of requests that use them, and in no others. Where the host does not read the executor's
/// memory, what is said of models of a `resident_decoder` holds here too, but that logits and
/// states may move; rows are padded up to what the host knows of a step, and `max_length` is what
/// the models' caches hold.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class decoder {
  using step_type = decoding_step<Target, D, Selector, S, V, Random, E>;
  using memory = typename step_type::memory;
  using drafter_type = typename step_type::drafter_type;

 public:
  using real = typename step_type::real;

  /// Whether the emitted text has exactly the law of plain decoding: ask with a static_assert.
  static constexpr bool lossless = step_type::parts::lossless;
  static constexpr std::int32_t max_nodes = step_type::max_nodes;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
          decoder_options options = {}, Random random = {}, E executor = {})
      : target_(std::forward<Target>(target)),
        executor_(std::move(executor)),
        requests_(std::move(options), static_cast<std::int32_t>(target_.vocab_size()), max_nodes,
                  host_reads<memory>),
        step_(executor_, std::forward<D>(drafter), std::forward<Selector>(selector), sampler,
              verifier, random,
              {.max_batch = requests_.options().max_batch,
               .chunk = requests_.options().chunk,
               .chunks = requests_.options().max_batch * requests_.options().chunk,
               .max_length = requests_.options().max_length,
               .vocab_size = requests_.vocab_size(),
               .ring = max_nodes,
               .ring_waits = false,
               .log_probabilities = requests_.options().max_log_probabilities,
               .eager_rows = requests_.options().eager_rows,
               .moves = false,
               .reports = true,
               .owner = "hunch::decoder"}) {
    draft_length(requests_.options().draft_length);
  }

  /// Neither copied nor moved: its memory refers to its own selector. `auto d = make()` works.
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  /// Drops the caches of what still runs, so that models held by reference can serve again.
  ~decoder() {
    for (std::int32_t slot = 0; slot < slots().size(); ++slot) { cancel(slots()[slot]); }
    attempt([this] { executor_.synchronize(); });  // before what it runs loses its memory
  }

  /// Adds a request; it takes part from the next step on. Only the id is returned: text comes from
  /// `step`. Allocates room for the prompt and `max_new_tokens`, so that no step has to. Waits for
  /// the executor.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running.
  request_id add(std::span<const token> prompt, const generation_options& options) {
    requests_.check(prompt, options, step_.sampler().check(options.sampling()));
    executor_.synchronize();  // what a step that threw has launched may read what was here
    const std::int32_t slot = slots().first_free();
    step_.requests().reserve(
        step_.where(), slot,
        {.tokens = prompt.size() + static_cast<std::size_t>(options.max_new_tokens),
         .bias = options.bias.size(),
         .stops = options.stop_tokens.size()});
    const request_id id = requests_.admit(slot, prompt, options);
    try {
      step_.requests().put(slot, id, prompt, options);
      step_.take(slot);
    } catch (...) {
      requests_.release(slot);
      throw;
    }
    step_.trees().constrain(slot, requests_.grammar(slot));
    return id;
  }

  /// Ends a request between two steps. False if it is not running. Waits for the executor.
  bool cancel(request_id id) noexcept {
    const std::int32_t slot = slots().find(id);
    if (slot < 0) { return false; }
    target_.commit(step_.release(slot, executor_));
    free(slot);
    return true;
  }

  std::int32_t running() const { return slots().running(); }
  bool is_running(request_id id) const { return slots().find(id) >= 0; }

  /// Runs one step for all running requests and returns what each of them emitted; the views are
  /// valid until the next call of `step`, `add` or `cancel`. A request that only read a piece of
  /// its prompt is left out. Returns nothing when nothing runs. Waits for the executor at its end,
  /// for grammars and stop strings, and where times of phases are taken or the host reads how many
  /// rows there are.
  /// \throws what a model throws; nothing is lost, and the next call repeats the step.
  std::span<const emission> step() {
    detail::stopwatch watch;
    if (running() == 0) { return {}; }
    const step_bounds now = requests_.bounds(draft_length(), step_type::most_nodes);
    step_.propose(now);
    end_phase();
    const double draft_seconds = watch.lap();
    const rows pass = step_.rows(now);
    auto evaluation = target_.evaluate(pass);
    end_phase();
    const double target_seconds = watch.lap();
    step_.verify(now, pass, evaluation, false);
    if (requests_.report_log_probabilities()) { step_.report(now); }
    if (requests_.have_stop_strings()) {
      executor_.synchronize();
      requests_.cut_at_stop_strings(
          step_.ring(), step_.reports(),
          [this](std::int32_t slot, const step_decision& cut) { step_.cut(slot, cut); });
    }
    step_.commit(now, pass, evaluation);
    target_.commit(step_.kept(now));
    attempt([this] { executor_.synchronize(); });
    requests_.begin_report();
    for (std::int32_t slot = 0; slot < slots().size(); ++slot) {
      const bool ended = requests_.advance(slot, step_.ring(), step_.reports()[slot],
                                           step_.log_probabilities(slot));
      if (ended) { free(slot); }
    }
    step_summary& summary = requests_.summary();
    summary.draft_length = draft_length();
    summary.draft_seconds = draft_seconds;
    summary.target_seconds = target_seconds;
    summary.verify_seconds = watch.lap();
    times_.draft_seconds += draft_seconds;
    times_.target_seconds += target_seconds;
    times_.verify_seconds += summary.verify_seconds;
    return requests_.emissions();
  }

  /// The tokens of one request as a lazy range: each increment takes a token, and a step is run
  /// when none is left. Other running requests advance in the same steps, and what they emit is
  /// lost; use `add` and `step` for batches. \throws what `add` does.
  generation<decoder> generate(std::span<const token> prompt,
                               const generation_options& options = {}) {
    return generation<decoder>(*this, prompt, options);
  }

  /// Drafts at most `length` levels from the next step on, within what the drafter's tree holds;
  /// 0 is plain decoding. Changes speed, never the law.
  void draft_length(std::int32_t length) { step_.draft_length(length); }
  std::int32_t draft_length() const { return step_.draft_length(); }

  /// The same for one request, whatever is allowed to others. With `emission::drafted` of an
  /// earlier run, step by step, and `length::fixed`, its text is repeated, whatever chose these
  /// lengths. False if it is not running.
  bool draft_length(request_id id, std::int32_t length) {
    const std::int32_t slot = slots().find(id);
    if (slot < 0) { return false; }
    const std::int32_t levels = std::max(length, std::int32_t{0});
    requests_.draft_length(slot, levels);
    step_.draft_length(slot, levels);
    return true;
  }

  /// Waits for the executor.
  statistics<max_nodes> stats() const {
    statistics<max_nodes> all = step_.stats();
    all += times_;
    return all;
  }
  void reset_stats() {
    step_.reset_stats();
    times_ = {};
  }
  /// Of the last step that was completed.
  const step_summary& last_step() const { return requests_.summary(); }

 private:
  const request_slots& slots() const { return requests_.slots(); }

  void end_phase() {
    if (requests_.options().times_phases || host_reads<memory>) { executor_.synchronize(); }
  }

  /// What a slot had is gone.
  void free(std::int32_t slot) noexcept {
    step_.trees().constrain(slot, nullptr);
    requests_.release(slot);
  }

  Target target_;
  E executor_;
  host_requests requests_;
  mutable step_type step_;  // reading its counters waits for the executor
  statistics<max_nodes> times_;
};

template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
decoder(Target&&, D&&, Selector&&, S&&, V&&, decoder_options = {}, Random = {}, E = {})
    -> decoder<Target, D, Selector, S, V, Random, E>;

}  // namespace hunch

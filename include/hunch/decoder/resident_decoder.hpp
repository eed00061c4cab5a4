// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/decoder/decoding_step.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/decoder/resident_loop.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>

namespace hunch {

/// Sizes that a resident loop fixes at construction.
struct resident_options {
  std::int32_t max_batch = 1;      ///< requests that run at the same time
  std::int32_t max_length = 4096;  ///< tokens of a sequence, prompt and emitted, >= 2; the models'
                                   ///< caches hold as many
  std::int32_t chunk = 256;        ///< prompt tokens that a step reads, of all requests, >= 1
  std::int32_t draft_length = 1 << 30;  ///< draft at most so deep, at least 1
  std::int32_t max_bias = 64;           ///< biased tokens of a request
  std::int32_t max_stop_tokens = 8;     ///< of a request
  std::int32_t ring = 1024;  ///< emitted tokens of a request that wait to be polled: at least the
                             ///< drafter's `max_nodes`, as many as a step may emit
  /// While a step has at most so many target rows, their laws are made side by side before the
  /// verifier asks; else one after the other, and only those that it reads. 0: never. -1: up to 512
  /// of chains, of which most are read, and 128 of trees, of which one path is.
  std::int32_t eager_rows = -1;

  /// These, but for what a step refuses. \throws std::invalid_argument naming an option out of
  /// range.
  resident_options checked() const {
    const refusal refuse{"hunch::resident_decoder"};
    if (max_length < 2) { refuse({"max_length must be at least 2"}); }
    if (draft_length < 1) { refuse({"draft_length must be at least 1; or use drafter::none"}); }
    if (max_bias < 0) { refuse({"max_bias must not be negative"}); }
    if (max_stop_tokens < 0) { refuse({"max_stop_tokens must not be negative"}); }
    return *this;
  }

  /// Refuses what such a loop cannot do for a request. \throws std::invalid_argument.
  void check(std::span<const token> prompt, const generation_options& options, status of_sampler,
             std::int32_t vocab_size) const {
    const refusal refuse{"hunch::resident_decoder"};
    if (options.grammar) { refuse({"grammars need the host in every step: use hunch::decoder"}); }
    if (!options.stop_strings.empty()) {
      refuse({"stop strings need the host in every step: use hunch::decoder"});
    }
    if (options.log_probabilities) {
      refuse({"log-probabilities are not reported here: use hunch::decoder"});
    }
    check_request(prompt, options, of_sampler,
                  {.owner = "hunch::resident_decoder",
                   .options = "resident_options",
                   .vocab_size = vocab_size,
                   .max_length = max_length,
                   .stop_tokens = static_cast<std::size_t>(max_stop_tokens),
                   .bias = static_cast<std::size_t>(max_bias)});
  }
};

/// The step of `decoder` repeated by the executor (see `ResidentExecutor`), which does not wait for
/// the host: the same policies, laws, random addresses and texts. Requests join while it runs,
/// through an inbox, and tokens leave it through rings that the host reads meanwhile, see
/// `resident_loop`. What needs the host between two steps is refused: grammars, stop strings,
/// log-probabilities.
///
/// A pass has at most `max_batch * max_nodes + chunk` rows.
///
/// The models' contracts are those of `decoder`, with these additions. Caches hold `max_length`
/// tokens per sequence: statuses are not looked at. And where the executor's resident memory is not
/// its buffers, so that the host reads nothing of it: rows, kept rows, inputs of heads and released
/// slots may be padding (see `rows`), and all passes have as many as they may have at most.
/// `evaluate`, `forward`, `head` and `commit` look at their arrays on the executor, in order with
/// its launches, and at nothing on the host but the numbers of rows. The logits of row i of a pass,
/// padding and what is not wanted included, lie at the same address in every pass; so do hidden
/// states and streams, for drafters that read them. Those of an array, rows equally far apart, are
/// found soonest, see `row_places`.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
class resident_decoder
    : public resident_loop<resident_decoder<Target, D, Selector, S, V, Random, E>, Target,
                           decoding_step<Target, D, Selector, S, V, Random, E>, E> {
  using step_type = decoding_step<Target, D, Selector, S, V, Random, E>;
  using loop_type = resident_loop<resident_decoder, Target, step_type, E>;
  friend loop_type;
  static_assert(!drafts_by_clock<typename step_type::drafter_type>,
                "hunch: this length policy is taught by the host's clock, which a resident loop "
                "does not read: use hunch::decoder, or length::cost");

 public:
  using real = typename step_type::real;

  /// Whether the emitted text has exactly the law of plain decoding.
  static constexpr bool lossless = step_type::parts::lossless;
  static constexpr std::int32_t max_nodes = step_type::max_nodes;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  resident_decoder(Target&& target, D&& drafter, Selector&& selector, S&& sampler, V&& verifier,
                   resident_options options = {}, Random random = {}, E executor = {})
      : loop_type(
            std::forward<Target>(target), std::move(executor),
            [&](E& where, auto& model) {
              return step_type(where, std::forward<D>(drafter), std::forward<Selector>(selector),
                               sampler, verifier, random,
                               {.max_batch = options.max_batch,
                                .chunk = options.chunk,
                                .chunks = options.chunk,
                                .max_length = options.max_length,
                                .vocab_size = static_cast<std::int32_t>(model.vocab_size()),
                                .ring = options.ring,
                                .ring_waits = true,
                                .log_probabilities = -1,
                                .eager_rows = options.eager_rows,
                                .moves = false,
                                .reports = false,
                                .owner = "hunch::resident_decoder"});
            },
            options.checked().max_batch, max_nodes, "hunch::resident_decoder", "resident_options"),
        options_(options) {
    step_.draft_length(options_.draft_length);
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      step_.requests().reserve(step_.where(), slot,
                               {.tokens = static_cast<std::size_t>(options_.max_length),
                                .bias = static_cast<std::size_t>(options_.max_bias),
                                .stops = static_cast<std::size_t>(options_.max_stop_tokens)});
    }
  }

  /// Ends the loop and drops the caches of what still runs.
  ~resident_decoder() {
    attempt([this] {  // an executor that has failed has lost what it ran, and the caches
      this->wait();
      for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
        if (this->uses(slot)) { release(slot); }
      }
      executor_.synchronize();
    });
  }

  /// Adds a request, which takes part as soon as the loop looks; does not wait. If no loop runs, or
  /// the one that runs has no place for it, the next `run` begins with it.
  /// \throws std::invalid_argument naming what is wrong with the request: nothing is ever ignored.
  /// \throws std::length_error if `max_batch` requests are running, or their ends are not polled.
  request_id add(std::span<const token> prompt, const generation_options& options) {
    options_.check(prompt, options, step_.sampler().check(options.sampling()),
                   static_cast<std::int32_t>(model_.vocab_size()));
    return this->add_by(
        [&](std::int32_t slot, request_id id) { step_.requests().put(slot, id, prompt, options); });
  }

  /// What one request emits, run to its end. What other requests emit meanwhile is lost. \throws
  /// what `add` and `run` do; then the request is cancelled.
  finished_text generate(std::span<const token> prompt, const generation_options& options = {}) {
    return this->run_to_end(
        add(prompt, options), {},
        [](std::vector<token>& text, const ring_entry& e) { text.push_back(e.t); });
  }

 private:
  using loop_type::executor_;
  using loop_type::model_;
  using loop_type::step_;

  /// Drops the caches of a slot, between two loops.
  void release(std::int32_t slot) {
    model_.commit(step_.release(slot, executor_));
    executor_.synchronize();
  }

  /// Over the first `slots` slots: launches and calls of the models, always the same.
  void one_step(std::int32_t slots) {
    const std::int32_t levels = step_.draft_length();
    const step_bounds bounds{.slots = slots,
                             .prompt_rows = options_.chunk,
                             .tree_rows = slots * step_type::most_nodes(levels),
                             .levels = levels};
    step_.propose(bounds);
    const rows pass = step_.rows(bounds);
    auto evaluation = model_.evaluate(pass);
    step_.verify(bounds, pass, evaluation, true);
    step_.commit(bounds, pass, evaluation);
    model_.commit(step_.kept(bounds));
  }

  resident_options options_;
};

template <class Target, class D, class Selector, class S, class V,
          class Random = random_source<philox>, class E = executor::host>
resident_decoder(Target&&, D&&, Selector&&, S&&, V&&, resident_options = {}, Random = {}, E = {})
    -> resident_decoder<Target, D, Selector, S, V, Random, E>;

}  // namespace hunch

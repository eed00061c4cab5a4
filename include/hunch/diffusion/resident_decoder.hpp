// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/detail/resident_loop.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/decoding_round.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>

namespace hunch::diffusion {

/// Sizes that a resident loop fixes at construction.
struct resident_options {
  std::int32_t max_batch = 1;   ///< requests that run at the same time
  std::int32_t max_canvas = 0;  ///< positions of one, 2 or more; 0: all that the model reads
  std::int32_t max_block = 32;  ///< positions of a block: a pass wants so many of a canvas, and one
                                ///< less than there are canvases
  std::int32_t draft_length = 1 << 30;  ///< canvases with drafts of a request at most
  std::int32_t max_bias = 64;           ///< biased tokens of a request
  std::int32_t max_stop_tokens = 8;     ///< of a request
  std::int32_t ring = 1024;  ///< unmaskings of a request that wait to be polled: at least as many
                             ///< as a round may make, one more than drafts
};

/// The round of `diffusion::decoder` repeated by the executor, which does not wait for the host:
/// the same policies, random addresses and unmaskings. Requests join while it runs, through an
/// inbox, and unmaskings leave it through rings that the host reads meanwhile, in their order, each
/// with its position.
///
/// What is said of models at `canvases`, `MaskedEvaluation` and `ObservingModel` for passes with
/// padding and repeated loops holds here. `release` is called between two loops only; while one
/// runs, `canvases::begins` says that a slot has another request.
///
/// One host thread at a time uses a loop. Arguments that are lvalues are held by reference, rvalues
/// by value.
template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
class resident_decoder {
  static_assert(ResidentExecutor<E>,
                "hunch: a resident loop needs an executor that models hunch::ResidentExecutor, "
                "such as executor::host or executor::cuda");
  using round_type = decoding_round<Model, O, S, V, D, Random, E>;

 public:
  using real = typename round_type::real;

  /// Whether the unmaskings are those of decoding one token a pass.
  static constexpr bool lossless = round_type::parts::lossless;
  static constexpr std::int32_t max_drafts = round_type::max_drafts;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  resident_decoder(Model&& model, O&& order, S&& sampler, V&& verifier, D&& drafts = {},
                   resident_options options = {}, Random random = {}, E executor = {})
      : model_(std::forward<Model>(model)),
        executor_(std::move(executor)),
        limits_{.owner = "hunch::diffusion::resident_decoder",
                .vocab_size = static_cast<std::int32_t>(model_.vocab_size()),
                .mask_token = static_cast<token>(model_.mask_token()),
                .max_canvas = static_cast<std::int32_t>(model_.max_positions())},
        options_(checked(options)),
        round_(executor_, std::forward<D>(drafts), order, sampler, verifier, random,
               {.max_batch = options_.max_batch,
                .max_canvas = options_.max_canvas,
                .vocab_size = limits_.vocab_size,
                .mask_token = limits_.mask_token,
                .ring = options_.ring},
               limits_.owner),
        loop_(round_, executor_, options_.max_batch, round_type::max_entries, limits_.owner,
              "diffusion::resident_options") {
    limits_.max_canvas = options_.max_canvas;
    limits_.options = "diffusion::resident_options";
    limits_.stop_tokens = sized(options_.max_stop_tokens);
    limits_.bias = sized(options_.max_bias);
    round_.draft_length(options_.draft_length);
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      round_.requests().reserve(round_.where(), slot,
                                {.tokens = sized(options_.max_canvas),
                                 .bias = sized(options_.max_bias),
                                 .stops = sized(options_.max_stop_tokens)});
    }
  }

  resident_decoder(const resident_decoder&) = delete;
  resident_decoder& operator=(const resident_decoder&) = delete;

  /// Ends the loop and releases all slots, so that models held by reference can serve again.
  ~resident_decoder() {
    attempt([this] {  // an executor that has failed has lost what it ran
      loop_.wait();
      for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) { release(slot); }
      executor_.synchronize();
    });
  }

  /// Adds a request, see `diffusion::decoder::add`. It takes part as soon as the loop looks; does
  /// not wait. If no loop runs, or the one that runs has no place for it, the next `run` begins
  /// with it. \throws std::invalid_argument naming what is wrong with the request: nothing is ever
  /// ignored. \throws std::length_error if `max_batch` requests are running, or their ends are not
  /// polled.
  request_id add(std::span<const token> prompt, const generation_options& options,
                 const canvas_options& canvas = {}) {
    check(prompt, options, canvas);
    const std::vector<token> tokens = canvas_of(prompt, options, canvas, limits_.mask_token);
    return loop_.add([&](std::int32_t slot, request_id id) {
      round_.put(slot, id, tokens, options, canvas.block_length);
    });
  }

  /// Ends a request, and drops what was not polled of it. Does not wait for a loop that runs: it
  /// ends the request in one of its next rounds, and the slot is free then. False if it is not
  /// running, or its end has been polled.
  bool cancel(request_id id) {
    return loop_.cancel(id, [this](std::int32_t slot) { release(slot); });
  }

  /// Requests whose end has not been polled, without those that were cancelled.
  std::int32_t running() const { return loop_.running(); }

  /// Whether a loop is under way, as far as the host knows.
  bool runs() const { return loop_.runs(); }

  /// Starts a loop of at most `max_steps` rounds, unless one runs, and need not wait for it. It
  /// ends by itself when every request has ended, or one of them has no room in its ring for what a
  /// round may write: `poll`, and run again.
  /// \throws std::logic_error if logits of a row have moved, and what models throw in a round or
  ///         while it is recorded: the next run repeats the round.
  void run(std::int64_t max_steps = std::int64_t{1} << 40) {
    loop_.run(max_steps, [this](std::int32_t slots) { one_round(slots); });
  }

  /// Asks the loop to end after its present round.
  void stop() { loop_.stop(); }

  /// Asks the loop to end and waits for it.
  void wait() { loop_.wait(); }

  /// Calls use(entry) for every `ring_entry` that has come out: unmaskings, and the end of every
  /// request, those of one request in their order. An end by an error has no token, and the
  /// position whose row has it. May be called while the loop runs; does not wait. `use` does not
  /// throw and does not call this object.
  template <class Use>
  void poll(Use&& use) {
    loop_.poll(std::forward<Use>(use));
  }

  /// The answer to one request, unmasked to its end; see `diffusion::decoder::generate`. What is
  /// unmasked for other requests meanwhile is lost. \throws what `add` and `run` do; then the
  /// request is cancelled.
  finished_text generate(std::span<const token> prompt, const generation_options& options,
                         const canvas_options& canvas = {}) {
    const request_id id = add(prompt, options, canvas);
    std::vector<token> tokens = canvas_of(prompt, options, canvas, limits_.mask_token);
    finished_text out;
    try {
      while (loop_.has(id)) {
        run();
        executor_.synchronize();
        poll([&](const ring_entry& e) {
          if (e.id != id) { return; }
          if (e.t != no_token) { tokens[sized(e.position)] = e.t; }
          out.finish = e.finish;
          out.status = e.status;
        });
      }
    } catch (...) {
      cancel(id);
      throw;
    }
    const std::span<const token> answer =
        answer_in(tokens, prompt.size(), options.stop_tokens, out.finish);
    out.tokens.assign(answer.begin(), answer.end());
    return out;
  }

  /// Counters since construction; ends the loop as `wait` does. Times are not measured, canvases of
  /// padding are not counted.
  statistics<max_drafts + 1> stats() {
    wait();
    return round_.stats();
  }

  E& executor() { return executor_; }

 private:
  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }

  resident_options checked(resident_options o) const {
    const refusal refuse{limits_.owner};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (o.max_block < 1) { refuse({"max_block must be at least 1"}); }
    if (o.max_bias < 0) { refuse({"max_bias must not be negative"}); }
    if (o.max_stop_tokens < 0) { refuse({"max_stop_tokens must not be negative"}); }
    if (o.ring < round_type::max_entries) {
      refuse({"ring must have room for the ", round_type::max_entries,
              " unmaskings that a round may make"});
    }
    o.max_canvas = checked_length(o.max_canvas, limits_);
    return o;
  }

  void check(std::span<const token> prompt, const generation_options& options,
             const canvas_options& canvas) const {
    check_canvas(prompt, options, canvas, round_.sampler().check(options.sampling()), limits_);
    const refusal refuse{limits_.owner};
    if (std::min(canvas.block_length, options.max_new_tokens) > options_.max_block) {
      refuse({"a block of ", canvas.block_length,
              " positions: raise diffusion::resident_options::max_block"});
    }
  }

  /// Between two loops.
  void release(std::int32_t slot) {
    round_.release(slot);
    model_.release(slot);
  }

  /// Over the first `slots` slots: launches and calls of the models, always the same.
  void one_round(std::int32_t slots) {
    round_bounds bounds;
    bounds.slots = slots;
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      round_.add_bounds(bounds, options_.max_canvas, options_.max_canvas, options_.max_block);
    }
    round_.propose(bounds, true);
    const canvases pass = round_.pass(bounds);
    auto evaluation = model_.evaluate(pass);
    round_.verify(bounds, pass, evaluation, true);
    round_.commit(bounds, pass, evaluation);
  }

  Model model_;
  E executor_;
  canvas_limits limits_;
  resident_options options_;
  round_type round_;
  resident_loop<round_type, E> loop_;
};

template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
resident_decoder(Model&&, O&&, S&&, V&&, D&& = {}, resident_options = {}, Random = {}, E = {})
    -> resident_decoder<Model, O, S, V, D, Random, E>;

}  // namespace hunch::diffusion

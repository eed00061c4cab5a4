// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/decoding_round.hpp>
#include <hunch/diffusion/detail/host_canvases.hpp>
#include <hunch/diffusion/drafter/self_speculation.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>

namespace hunch::diffusion {

/// Sizes that a decoder fixes at construction, so that a round allocates nothing.
struct decoder_options {
  std::int32_t max_batch = 1;   ///< requests that run at the same time
  std::int32_t max_canvas = 0;  ///< positions of one, 2 or more; 0: all that the model reads
  std::int32_t draft_length = 1 << 30;  ///< canvases with drafts; see `decoder::draft_length`
};

/// Lossless self-speculation for masked diffusion models (SSD: Gao et al. 2025, arXiv:2510.04147),
/// composed at compile time from a model and policies.
///
/// The reference is decoding one token a pass: of the masked positions of the first block with
/// masks, the one that the order puts first gets its token. A round does several of these steps in
/// one pass. The logits of the last unmasking, or another model (see `model_drafts`), draft for the
/// positions that are left, in the order's order. The model reads the text and, beside it, the text
/// with sets of drafts that are likely to be unmasked next (see `draft_sets`). Drafts are unmasked
/// as long as the logits of the canvas before them would have unmasked just that, and there is a
/// canvas with it; the logits of the last of these make one more unmasking. So a round makes 1 to
/// N + 1 unmaskings. With a lossless verifier these are, in their order, those of the reference.
///
/// With a `BlockCachedModel` the reference is the same under the same cache, and a round ends with
/// the block. At temperatures above 0 tokens are drawn, by the reference too, with noise that
/// belongs to the request's seed and to the position.
///
/// Everything before the commit of a round is staged: a model that throws leaves the decoder as it
/// was, and the round can be repeated. The commit neither throws nor allocates. Requests join and
/// can be cancelled between rounds. What is unmasked depends on the request, not on the batch.
///
/// Arguments that are lvalues are held by reference, rvalues by value.
template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
class decoder {
  using round_type = decoding_round<Model, O, S, V, D, Random, E>;
  using memory = typename round_type::memory;
  using parts = typename round_type::parts;

 public:
  using real = typename round_type::real;

  /// Whether the unmaskings are those of decoding one token a pass: ask with a static_assert.
  static constexpr bool lossless = parts::lossless;
  static constexpr std::int32_t max_drafts = parts::max_drafts;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  decoder(Model&& model, O&& order, S&& sampler, V&& verifier, D&& drafts = {},
          decoder_options options = {}, Random random = {}, E executor = {})
      : model_(std::forward<Model>(model)),
        executor_(std::move(executor)),
        limits_{.owner = "hunch::diffusion::decoder",
                .vocab_size = static_cast<std::int32_t>(model_.vocab_size()),
                .mask_token = static_cast<token>(model_.mask_token()),
                .max_canvas = static_cast<std::int32_t>(model_.max_positions())},
        options_(checked(options)),
        round_(executor_, std::forward<D>(drafts), order, sampler, verifier, random,
               {.max_batch = options_.max_batch,
                .max_canvas = options_.max_canvas,
                .vocab_size = limits_.vocab_size,
                .mask_token = limits_.mask_token,
                .ring = round_type::max_entries,
                .ring_waits = false},
               limits_.owner),
        requests_(options_.max_batch, round_type::max_entries, limits_.owner) {
    limits_.max_canvas = options_.max_canvas;
    draft_length(options_.draft_length);
  }

  /// Neither copied nor moved: its views refer to its own memory. `auto d = make()` works.
  decoder(const decoder&) = delete;
  decoder& operator=(const decoder&) = delete;

  /// Releases the slots of what still runs, so that a model held by reference can serve again.
  ~decoder() {
    for (std::int32_t slot = 0; slot < slots().size(); ++slot) { cancel(slots()[slot]); }
    attempt([this] { executor_.synchronize(); });  // before what it runs loses its memory
  }

  /// Adds a request: a prompt, and after it `max_new_tokens` positions to be unmasked. It takes
  /// part from the next round on. Allocates all that it needs; waits for the executor. There are no
  /// penalties, grammars, stop strings and log-probabilities here. A stop token ends the text once
  /// it and all before it are unmasked. \throws std::invalid_argument naming what is wrong with the
  /// request: nothing is ever ignored. \throws std::length_error if `max_batch` requests are
  /// running.
  request_id add(std::span<const token> prompt, const generation_options& options,
                 const canvas_options& canvas = {}) {
    check_canvas(prompt, options, canvas, round_.sampler().check(options.sampling()), limits_);
    slots().require_room();
    host_canvases::request r{canvas_of(prompt, options, canvas, limits_.mask_token), prompt.size(),
                             canvas.block_length, options.stop_tokens};
    executor_.synchronize();  // what a round that threw has launched may read what was here
    const std::int32_t slot = slots().first_free();
    round_.requests().reserve(round_.where(), slot,
                              {.tokens = r.tokens.size(),
                               .bias = options.bias.size(),
                               .stops = options.stop_tokens.size()});
    const request_id id = requests_.admit(slot, std::move(r));
    try {
      round_.put(slot, id, requests_[slot].tokens, options, canvas.block_length);
      round_.take(slot);
    } catch (...) {
      requests_.release(slot);
      throw;
    }
    return id;
  }

  /// Ends a request between two rounds. False if it is not running. Waits for the executor.
  bool cancel(request_id id) noexcept {
    const std::int32_t slot = slots().find(id);
    if (slot < 0) { return false; }
    attempt([this] { executor_.synchronize(); });
    round_.release(slot);
    model_.release(slot);
    requests_.release(slot);
    return true;
  }

  std::int32_t running() const { return slots().running(); }
  bool is_running(request_id id) const { return slots().find(id) >= 0; }

  /// Runs one round for all running requests, in one pass of the model, and returns what was
  /// unmasked for each of them; the views are valid until the next call of `step`, `add` or
  /// `cancel`. Returns nothing when nothing runs. Waits for the executor at its end, and where the
  /// host reads how many canvases there are. \throws what a model throws; the next call repeats the
  /// round.
  std::span<const emission> step() {
    if (running() == 0) { return {}; }
    requests_.begin_round();
    detail::stopwatch watch;
    const round_bounds now = bounds();
    round_.propose(now, false);
    const canvases pass = round_.pass(now);
    const double draft_seconds = watch.lap();
    auto evaluation = model_.evaluate(pass);
    const double target_seconds = watch.lap();
    round_.verify(now, pass, evaluation, false);
    round_.commit(now, pass, evaluation);
    attempt([this] { executor_.synchronize(); });
    for (std::int32_t slot = 0; slot < now.slots; ++slot) {
      if (!requests_.advance(slot, round_.ring())) { continue; }
      model_.release(slot);
      round_.forget(slot);
      requests_.release(slot);
    }
    times_.draft_seconds += draft_seconds;
    times_.target_seconds += target_seconds;
    times_.verify_seconds += watch.lap();
    return requests_.emissions();
  }

  /// The answer to one request, unmasked to its end: up to the stop token; masks are left after an
  /// error. Other running requests advance in the same rounds, and what is unmasked for them is
  /// lost; use `add` and `step` for batches. \throws what these do; then the request is cancelled.
  finished_text generate(std::span<const token> prompt, const generation_options& options,
                         const canvas_options& canvas = {}) {
    const request_id id = add(prompt, options, canvas);
    try {
      for (;;) {
        for (const emission& e : step()) {
          if (e.id != id || e.finish == finish_reason::none) { continue; }
          return {{e.answer.begin(), e.answer.end()}, e.finish, e.status};
        }
      }
    } catch (...) {
      cancel(id);
      throw;
    }
  }

  /// At most so many canvases with drafts for a request from the next round on, within what there
  /// is room for; 0 is decoding one token a pass. With a lossless verifier it changes speed only.
  void draft_length(std::int32_t length) { round_.draft_length(length); }
  std::int32_t draft_length() const { return round_.draft_length(); }

  /// Counters. A step is one round of one request, a target row one canvas in a pass. Waits for the
  /// executor. Where launches do not wait, the times of drafts and of the target are those of
  /// launching, and the time of verification holds the rest.
  statistics<max_drafts + 1> stats() const {
    statistics<max_drafts + 1> all = round_.stats();
    all += times_;
    return all;
  }
  void reset_stats() {
    round_.reset_stats();
    times_ = {};
  }

 private:
  const request_slots& slots() const { return requests_.slots(); }

  decoder_options checked(decoder_options o) const {
    const refusal refuse{limits_.owner};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    o.max_canvas = checked_length(o.max_canvas, limits_);
    return o;
  }

  /// What the next round has at most.
  round_bounds bounds() const {
    round_bounds b;
    for (std::int32_t slot = 0; slot < slots().size(); ++slot) {
      if (!slots().uses(slot)) { continue; }
      const host_canvases::request& r = requests_[slot];
      b.slots = slot + 1;
      const auto length = static_cast<std::int32_t>(r.tokens.size());
      round_.add_bounds(b, length, length - static_cast<std::int32_t>(r.answer), r.block_length);
    }
    return b;
  }

  Model model_;
  E executor_;
  canvas_limits limits_;
  decoder_options options_;
  mutable round_type round_;  // reading its counters waits for the executor
  host_canvases requests_;
  statistics<max_drafts + 1> times_;
};

template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
decoder(Model&&, O&&, S&&, V&&, D&& = {}, decoder_options = {}, Random = {}, E = {})
    -> decoder<Model, O, S, V, D, Random, E>;

}  // namespace hunch::diffusion

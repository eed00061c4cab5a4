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
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/resident_loop.hpp>
#include <hunch/decoder/ring.hpp>
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
/// Entries that are polled are unmaskings, each with its position. An end by an error has no token,
/// and the position whose row has it. Arguments that are lvalues are held by reference, rvalues
/// by value.
template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
class resident_decoder : public resident_loop<resident_decoder<Model, O, S, V, D, Random, E>, Model,
                                              decoding_round<Model, O, S, V, D, Random, E>, E> {
  using round_type = decoding_round<Model, O, S, V, D, Random, E>;
  using loop_type = resident_loop<resident_decoder, Model, round_type, E>;
  friend loop_type;

 public:
  using real = typename round_type::real;

  /// Whether the unmaskings are those of decoding one token a pass.
  static constexpr bool lossless = round_type::parts::lossless;
  static constexpr std::int32_t max_drafts = round_type::max_drafts;

  /// \throws std::invalid_argument naming an option out of range, or two things that do not fit.
  resident_decoder(Model&& model, O&& order, S&& sampler, V&& verifier, D&& drafts = {},
                   resident_options options = {}, Random random = {}, E executor = {})
      : loop_type(
            std::forward<Model>(model), std::move(executor),
            [&](E& where, auto& made) {
              const canvas_limits limits = limits_of(made);
              return round_type(where, std::forward<D>(drafts), order, sampler, verifier, random,
                                {.max_batch = options.max_batch,
                                 .max_canvas = checked(options, limits).max_canvas,
                                 .vocab_size = limits.vocab_size,
                                 .mask_token = limits.mask_token,
                                 .ring = options.ring,
                                 .ring_waits = true},
                                limits.owner);
            },
            options.max_batch, round_type::max_entries, limits_of(model).owner,
            "diffusion::resident_options"),
        limits_(limits_of(model_)),
        options_(checked(options, limits_)) {
    limits_.max_canvas = options_.max_canvas;
    limits_.options = "diffusion::resident_options";
    limits_.stop_tokens = sized(options_.max_stop_tokens);
    limits_.bias = sized(options_.max_bias);
    step_.draft_length(options_.draft_length);
    for (std::int32_t slot = 0; slot < options_.max_batch; ++slot) {
      step_.requests().reserve(step_.where(), slot,
                               {.tokens = sized(options_.max_canvas),
                                .bias = sized(options_.max_bias),
                                .stops = sized(options_.max_stop_tokens)});
    }
  }

  /// Ends the loop and releases all slots, so that models held by reference can serve again.
  ~resident_decoder() {
    attempt([this] {  // an executor that has failed has lost what it ran
      this->wait();
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
    return this->add_by([&](std::int32_t slot, request_id id) {
      step_.put(slot, id, tokens, options, canvas.block_length);
    });
  }

  /// The answer to one request, unmasked to its end; see `diffusion::decoder::generate`. What is
  /// unmasked for other requests meanwhile is lost. \throws what `add` and `run` do; then the
  /// request is cancelled.
  finished_text generate(std::span<const token> prompt, const generation_options& options,
                         const canvas_options& canvas = {}) {
    const request_id id = add(prompt, options, canvas);
    finished_text out = this->run_to_end(
        id, canvas_of(prompt, options, canvas, limits_.mask_token),
        [](std::vector<token>& text, const ring_entry& e) { text[sized(e.position)] = e.t; });
    const std::span<const token> answer =
        answer_in(out.tokens, prompt.size(), options.stop_tokens, out.finish);
    out.tokens = std::vector<token>(answer.begin(), answer.end());
    return out;
  }

 private:
  using loop_type::executor_;
  using loop_type::model_;
  using loop_type::step_;

  template <class M>
  static canvas_limits limits_of(M& model) {
    return {.owner = "hunch::diffusion::resident_decoder",
            .vocab_size = static_cast<std::int32_t>(model.vocab_size()),
            .mask_token = static_cast<token>(model.mask_token()),
            .max_canvas = static_cast<std::int32_t>(model.max_positions())};
  }

  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }

  static resident_options checked(resident_options o, const canvas_limits& limits) {
    const refusal refuse{limits.owner};
    if (o.max_batch < 1) { refuse({"max_batch must be at least 1"}); }
    if (o.max_block < 1) { refuse({"max_block must be at least 1"}); }
    if (o.max_bias < 0) { refuse({"max_bias must not be negative"}); }
    if (o.max_stop_tokens < 0) { refuse({"max_stop_tokens must not be negative"}); }
    if (o.ring < round_type::max_entries) {
      refuse({"ring must have room for the ", round_type::max_entries,
              " unmaskings that a round may make"});
    }
    o.max_canvas = checked_length(o.max_canvas, limits);
    return o;
  }

  void check(std::span<const token> prompt, const generation_options& options,
             const canvas_options& canvas) const {
    check_canvas(prompt, options, canvas, step_.sampler().check(options.sampling()), limits_);
    const refusal refuse{limits_.owner};
    if (std::min(canvas.block_length, options.max_new_tokens) > options_.max_block) {
      refuse({"a block of ", canvas.block_length,
              " positions: raise diffusion::resident_options::max_block"});
    }
  }

  /// Between two loops.
  void release(std::int32_t slot) {
    step_.release(slot);
    model_.release(slot);
  }

  /// Over the first `slots` slots: launches and calls of the models, always the same.
  void one_step(std::int32_t slots) {
    round_bounds bounds;
    bounds.slots = slots;
    for (std::int32_t slot = 0; slot < slots; ++slot) {
      step_.add_bounds(bounds, options_.max_canvas, options_.max_canvas, options_.max_block);
    }
    step_.propose(bounds, true);
    const canvases pass = step_.pass(bounds);
    auto evaluation = model_.evaluate(pass);
    step_.verify(bounds, pass, evaluation, true);
    step_.commit(bounds, pass, evaluation);
  }

  canvas_limits limits_;
  resident_options options_;
};

template <class Model, class O, class S, class V, class D = self_speculation<4>,
          class Random = random_source<philox>, class E = executor::host>
resident_decoder(Model&&, O&&, S&&, V&&, D&& = {}, resident_options = {}, Random = {}, E = {})
    -> resident_decoder<Model, O, S, V, D, Random, E>;

}  // namespace hunch::diffusion

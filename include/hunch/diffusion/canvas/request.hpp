// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch::diffusion {

/// What a request's canvas is, besides its prompt and its length, `max_new_tokens`.
struct canvas_options {
  /// Positions that are unmasked before those after them: the answer is cut into such blocks from
  /// its beginning on, the last one may be shorter. 1 or more; the answer's length or more: one
  /// block.
  std::int32_t block_length = 32;
  /// What of the answer is known: [at most max_new_tokens] tokens, with the mask token where one is
  /// to be unmasked. Everything after is. Read by `add`.
  std::span<const token> answer = {};
};

/// What became of one request in one round.
struct emission {
  request_id id = 0;
  std::span<const unmasking> unmaskings;  ///< in the order in which they were made
  std::span<const origin> origins;        ///< of each unmasking
  std::span<const token> canvas;  ///< the whole text now, the mask token where nothing is unmasked
  std::span<const token> answer;  ///< what follows the prompt; up to the stop token, once finished
  finish_reason finish = finish_reason::none;
  hunch::status status = hunch::status::ok;  ///< why, if `finish` is `error`
  std::int32_t failed_position = -1;         ///< in the canvas, whose logits have the error
};

/// What a decoder can do for a canvas.
struct canvas_limits {
  std::int32_t vocab_size = 0;
  token mask_token = no_token;
  std::int32_t max_canvas = 0;  ///< positions
};

/// Refuses what cannot be done as asked: nothing is ever ignored.
/// \throws std::invalid_argument naming what is wrong.
template <Sampler S>
void check_canvas(std::span<const token> prompt, const generation_options& options,
                  const canvas_options& canvas, const S& sampler, const canvas_limits& limits) {
  const refusal refuse{"hunch::diffusion::decoder"};
  if (!options.stop_strings.empty()) {
    refuse({"a canvas has no stop strings, for it is not unmasked from left to right"});
  }
  if (options.log_probabilities) { refuse({"log-probabilities are not reported of a canvas"}); }
  check_request(
      prompt, options, sampler,
      {.owner = "hunch::diffusion::decoder", .options = "", .vocab_size = limits.vocab_size});
  if (std::ranges::find(prompt, limits.mask_token) != prompt.end()) {
    refuse({"invalid_token: the prompt holds the mask token; canvas_options::answer may"});
  }
  if (canvas.block_length < 1) { refuse({"block_length must be at least 1"}); }
  const auto length = static_cast<std::size_t>(options.max_new_tokens);
  if (prompt.size() + length > static_cast<std::size_t>(limits.max_canvas)) {
    refuse({"a canvas of ", prompt.size() + length, " positions; the decoder has room for ",
            limits.max_canvas});
  }
  if (canvas.answer.size() > length) {
    refuse({"canvas_options::answer is longer than max_new_tokens"});
  }
  for (const token t : canvas.answer) {
    if (t != limits.mask_token && (t < 0 || t >= limits.vocab_size)) {
      refuse({"invalid_token: the answer holds ", t, ", the vocabulary ", limits.vocab_size,
              " tokens"});
    }
  }
  if (canvas.answer.size() == length &&
      std::ranges::find(canvas.answer, limits.mask_token) == canvas.answer.end()) {
    refuse({"the answer has no mask: nothing is to be unmasked"});
  }
}

/// How far a canvas is.
struct canvas_state {
  std::int32_t filled = 0;      ///< positions before it are unmasked
  std::int32_t masks = 0;       ///< positions that are not
  std::int32_t stopped_at = 0;  ///< the first stop token of the answer; canvas length: none
};

/// A request while it runs. All that its rounds need is allocated when it is made.
struct running_canvas {
  request_id id = 0;          ///< 0: none
  std::vector<token> tokens;  ///< the canvas as it is committed
  std::int32_t answer = 0;    ///< its first position after the prompt
  std::int32_t block_length = 1;
  std::uint64_t seed = 0;
  std::vector<logit_bias> bias;
  sampling_parameters parameters;
  std::vector<token> stop_tokens;
  canvas_state state;
  std::vector<planned_draft> plan;  ///< [max drafts] for the next round
  std::int32_t planned = 0;
  std::int32_t opened = -1;  ///< where the block begins that a `BlockCachedModel` has a cache for

  running_canvas() = default;

  running_canvas(std::span<const token> prompt, const generation_options& options,
                 const canvas_options& canvas, token mask_token, std::int32_t max_drafts)
      : answer(static_cast<std::int32_t>(prompt.size())),
        block_length(canvas.block_length),
        seed(options.seed),
        bias(options.bias),
        parameters(options.sampling()),
        stop_tokens(options.stop_tokens),
        plan(static_cast<std::size_t>(max_drafts)) {
    tokens.assign(prompt.begin(), prompt.end());
    tokens.insert(tokens.end(), canvas.answer.begin(), canvas.answer.end());
    tokens.resize(prompt.size() + static_cast<std::size_t>(options.max_new_tokens), mask_token);
    parameters.bias = bias.data();
    state = {.filled = answer,
             .masks = static_cast<std::int32_t>(std::ranges::count(tokens, mask_token)),
             .stopped_at = length()};
    for (std::int32_t i = length() - 1; i >= answer; --i) {
      if (stops(tokens[static_cast<std::size_t>(i)])) { state.stopped_at = i; }
    }
    skip_unmasked(state, tokens.data(), mask_token);
  }

  std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }
  /// The block of a position, and where it ends.
  std::int32_t block_of(std::int32_t position) const { return (position - answer) / block_length; }
  std::int32_t end_of_block(std::int32_t position) const {
    const std::int64_t end =
        answer + (static_cast<std::int64_t>(block_of(position)) + 1) * block_length;
    return static_cast<std::int32_t>(std::min<std::int64_t>(end, length()));
  }
  /// Where the first block with masks begins.
  std::int32_t known() const { return answer + block_of(state.filled) * block_length; }

  /// Why the text ends with an unmasking into `canvas`, this request's text as it is by then, whose
  /// state is brought up to date: its last mask is unmasked, or a stop token and all before it.
  finish_reason ends_with(const unmasking& w, const token* canvas, canvas_state& s,
                          token mask_token) const {
    --s.masks;
    if (w.position < s.stopped_at && stops(w.t)) { s.stopped_at = w.position; }
    skip_unmasked(s, canvas, mask_token);
    if (s.stopped_at < s.filled) { return finish_reason::stop_token; }
    return s.masks == 0 ? finish_reason::length : finish_reason::none;
  }

 private:
  bool stops(token t) const { return std::ranges::find(stop_tokens, t) != stop_tokens.end(); }
  void skip_unmasked(canvas_state& s, const token* canvas, token mask_token) const {
    while (s.filled < length() && canvas[s.filled] != mask_token) { ++s.filled; }
  }
};

}  // namespace hunch::diffusion

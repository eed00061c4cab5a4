// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>

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
  const char* owner = "";    ///< the class that refuses, for messages
  const char* options = "";  ///< where the last two are set
  std::int32_t vocab_size = 0;
  token mask_token = no_token;
  std::int32_t max_canvas = 0;  ///< positions
  std::size_t stop_tokens = std::numeric_limits<std::size_t>::max();
  std::size_t bias = std::numeric_limits<std::size_t>::max();  ///< tokens
};

/// Positions of a decoder's longest canvas: as many as are asked for, 0 being all that the model
/// reads. \throws std::invalid_argument if it does not read so many.
inline std::int32_t checked_length(std::int32_t asked, const canvas_limits& model) {
  const refusal refuse{model.owner};
  const std::int32_t length = asked == 0 ? model.max_canvas : asked;
  if (length < 2) { refuse({"max_canvas must be at least 2"}); }
  if (length > model.max_canvas) {
    refuse({"max_canvas is ", length, ", the model's max_positions() ", model.max_canvas});
  }
  return length;
}

/// A request's canvas before the first round.
inline std::vector<token> canvas_of(std::span<const token> prompt,
                                    const generation_options& options, const canvas_options& canvas,
                                    token mask_token) {
  std::vector<token> tokens;
  const std::size_t length = prompt.size() + static_cast<std::size_t>(options.max_new_tokens);
  tokens.reserve(length);
  tokens.assign(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), canvas.answer.begin(), canvas.answer.end());
  tokens.resize(length, mask_token);
  return tokens;
}

/// What follows the prompt of a canvas; if the text ends with a stop token, up to the first.
inline std::span<const token> answer_in(std::span<const token> canvas, std::size_t answer,
                                        std::span<const token> stop_tokens, finish_reason finish) {
  const std::span<const token> all = canvas.subspan(answer);
  if (finish != finish_reason::stop_token) { return all; }
  const auto stop = std::ranges::find_first_of(all, stop_tokens);
  return all.first(static_cast<std::size_t>(stop - all.begin()) + 1);
}

/// Refuses what cannot be done as asked: nothing is ever ignored.
/// \param of_sampler what the sampler's `check` says of the parameters.
/// \throws std::invalid_argument naming what is wrong.
inline void check_canvas(std::span<const token> prompt, const generation_options& options,
                         const canvas_options& canvas, status of_sampler,
                         const canvas_limits& limits) {
  const refusal refuse{limits.owner};
  if (!options.stop_strings.empty()) {
    refuse({"a canvas has no stop strings, for it is not unmasked from left to right"});
  }
  if (options.log_probabilities) { refuse({"log-probabilities are not reported of a canvas"}); }
  check_request(prompt, options, of_sampler,
                {.owner = limits.owner,
                 .options = limits.options,
                 .vocab_size = limits.vocab_size,
                 .stop_tokens = limits.stop_tokens,
                 .bias = limits.bias});
  if (std::ranges::find(options.stop_tokens, limits.mask_token) != options.stop_tokens.end()) {
    refuse({"invalid_token: a stop token is the mask token, which no text ends with"});
  }
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

}  // namespace hunch::diffusion

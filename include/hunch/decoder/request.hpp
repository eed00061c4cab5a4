// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>

namespace hunch {

/// What a decoder can do for a request.
struct request_limits {
  const char* owner = "";    ///< the class that refuses, for messages
  const char* options = "";  ///< where its `max_length` is set, if it has one
  std::int32_t vocab_size = 0;
  std::int64_t max_length = std::numeric_limits<std::int64_t>::max();  ///< prompt and answer
  std::int32_t log_probabilities = -1;  ///< the most that may be reported; -1: none
  bool has_token_text = false;
  std::size_t stop_tokens = std::numeric_limits<std::size_t>::max();
  std::size_t bias = std::numeric_limits<std::size_t>::max();  ///< tokens
};

/// Refuses what cannot be done as asked, such as tokens outside the vocabulary or values out of
/// range: nothing is ever ignored.
/// \param of_sampler what the sampler's `check` says of the parameters.
/// \throws std::invalid_argument naming what is wrong.
inline void check_request(std::span<const token> prompt, const generation_options& options,
                          status of_sampler, const request_limits& limits) {
  const refusal refuse{limits.owner};
  const auto in_vocabulary = [&](token t) { return t >= 0 && t < limits.vocab_size; };
  if (prompt.empty()) { refuse({"the prompt is empty; begin with the model's start token"}); }
  for (const token t : prompt) {
    if (!in_vocabulary(t)) {
      refuse({"invalid_token: the prompt holds ", t, ", the vocabulary ", limits.vocab_size,
              " tokens"});
    }
  }
  for (const token t : options.stop_tokens) {
    if (!in_vocabulary(t)) {
      refuse({"invalid_token: a stop token ", t, ", the vocabulary has ", limits.vocab_size,
              " tokens"});
    }
  }
  if (options.max_new_tokens < 1) { refuse({"max_new_tokens must be at least 1"}); }
  if (static_cast<std::int64_t>(prompt.size()) + options.max_new_tokens > limits.max_length) {
    refuse({"a prompt of ", prompt.size(), " and max_new_tokens of ", options.max_new_tokens,
            " tokens: raise ", limits.options, "::max_length"});
  }
  if (of_sampler != status::ok) {
    refuse(
        {"invalid_parameter: a value of a sampling stage is out of range, or the sampler has no "
         "stage for it"});
  }
  std::vector<token> biased;
  for (const logit_bias& b : options.bias) {
    if (!in_vocabulary(b.t)) {
      refuse({"invalid_token: a bias for ", b.t, ", outside the vocabulary"});
    }
    biased.push_back(b.t);
  }
  std::ranges::sort(biased);
  if (std::ranges::adjacent_find(biased) != biased.end()) {
    refuse({"invalid_parameter: two biases for one token"});
  }
  const std::int32_t reported = options.log_probabilities.value_or(-1);
  if (options.log_probabilities.has_value() && reported < 0) {
    refuse({"invalid_parameter: log_probabilities must not be negative"});
  }
  if (reported > limits.log_probabilities) {
    refuse({"log-probabilities of ", reported,
            " tokens: raise decoder_options::max_log_probabilities"});
  }
  for (const std::string& s : options.stop_strings) {
    if (s.empty()) { refuse({"a stop string is empty"}); }
  }
  if (!options.stop_strings.empty() && !limits.has_token_text) {
    refuse({"stop strings need decoder_options::token_text"});
  }
  if (options.stop_tokens.size() > limits.stop_tokens) {
    refuse(
        {options.stop_tokens.size(), " stop tokens: raise ", limits.options, "::max_stop_tokens"});
  }
  if (options.bias.size() > limits.bias) {
    refuse({options.bias.size(), " biased tokens: raise ", limits.options, "::max_bias"});
  }
}

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>

/// \file
/// The words that every part of the library shares: tokens, why a row failed, why a request ended.

namespace hunch {

/// A token id in [0, vocabulary size). Negative values never reach a model.
using token = std::int32_t;

inline constexpr token no_token = -1;

/// What became of one row or one sequence in a step. Errors of rows are data, never exceptions:
/// one bad row must not disturb the other requests of the batch.
enum class status : std::uint8_t {
  ok,
  invalid_logits,     ///< a NaN, a +inf, or nothing but -inf in a row of logits
  empty_support,      ///< masks and biases excluded every token
  invalid_draft,      ///< the draft law gives the drafted token no probability
  invalid_token,      ///< an id outside the vocabulary
  invalid_parameter,  ///< a sampling parameter outside its range
  cache_full,         ///< the model has no room for the row
};

/// Why a request ended.
enum class finish_reason : std::uint8_t {
  none,         ///< it is still running
  stop_token,   ///< a stop token was emitted (it is the last token of the output)
  stop_string,  ///< the text of the output contains a stop string
  length,       ///< `max_new_tokens` were emitted
  cache_full,   ///< the target's cache has no room for one more token
  cancelled,    ///< the caller cancelled it; reported by `generation` only
  error,        ///< see the request's `status`
};

/// Where an emitted token came from.
enum class origin : std::uint8_t {
  sampled,    ///< drawn from the target, nothing was drafted
  accepted,   ///< drafted, and accepted by the verifier
  corrected,  ///< drawn in place of a rejected draft
  bonus,      ///< drawn after a draft that was accepted whole
};

HUNCH_HOST_DEVICE constexpr const char* to_string(status s) {
  switch (s) {
    case status::ok:
      return "ok";
    case status::invalid_logits:
      return "invalid_logits";
    case status::empty_support:
      return "empty_support";
    case status::invalid_draft:
      return "invalid_draft";
    case status::invalid_token:
      return "invalid_token";
    case status::invalid_parameter:
      return "invalid_parameter";
    case status::cache_full:
      return "cache_full";
  }
  return "unknown";
}

HUNCH_HOST_DEVICE constexpr const char* to_string(finish_reason r) {
  switch (r) {
    case finish_reason::none:
      return "none";
    case finish_reason::stop_token:
      return "stop_token";
    case finish_reason::stop_string:
      return "stop_string";
    case finish_reason::length:
      return "length";
    case finish_reason::cache_full:
      return "cache_full";
    case finish_reason::cancelled:
      return "cancelled";
    case finish_reason::error:
      return "error";
  }
  return "unknown";
}

}  // namespace hunch

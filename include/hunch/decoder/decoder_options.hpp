// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

#include <hunch/core/types.hpp>

namespace hunch {

/// Sizes that a decoder fixes at construction, so that a step allocates nothing.
struct decoder_options {
  std::int32_t max_batch = 1;           ///< requests that run at the same time
  std::int32_t chunk = 256;             ///< prompt tokens read per sequence and step, >= 2
  std::int32_t draft_length = 1 << 30;  ///< draft at most so deep; see `decoder::draft_length`
  /// Tokens of a text at most, prompt and answer, >= 2: longer requests are refused. Drafters that
  /// keep something for every token have room for so many. To be set where the host does not read
  /// the executor's memory: what the models' caches hold, whose statuses it does not see there.
  std::int32_t max_length = std::numeric_limits<std::int32_t>::max();
  /// Most probable tokens that a request may have reported for each of its own, at most all of
  /// them; -1: none, and not the log-probabilities of its own either. Fixes the memory for them.
  std::int32_t max_log_probabilities = -1;
  /// While a step has at most so many rows of trees, their laws are made side by side before the
  /// verifier asks; else each when it asks, and those that it does not read are not made. The text
  /// is the same. 0: never. -1: on a host never, unless its ranks are to exchange rarely, see
  /// `executor::sharded_options`; on a device up to 512 of chains, of which most are read, and 128
  /// of trees, of which one path is.
  std::int32_t eager_rows = -1;
  /// Whether the times of the phases of a step are those of what they compute, for which the host
  /// waits at the end of each; else each is how long the host took to launch it. Where the host
  /// reads the executor's memory they always are.
  bool times_phases = true;
  /// The bytes of a token, for stop strings; not needed without them. The view must stay valid
  /// until the next call. However long a token is, no step allocates for it.
  std::function<std::string_view(token)> token_text = {};
};

}  // namespace hunch

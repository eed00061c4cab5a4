// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/token_census.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// A sequence while it runs, in the memory of the bodies. Its root, the last committed token, is
/// not in the target's cache; everything before it is, but for what is left of its prompt.
struct sequence {
  request_id id = 0;           ///< 0: none
  std::int32_t length = 0;     ///< committed tokens
  std::int32_t cached = 0;     ///< tokens in the target's cache
  std::int32_t remaining = 0;  ///< tokens that may still be emitted
  std::int32_t draft_length = std::numeric_limits<std::int32_t>::max();  ///< levels, at most
  std::int32_t log_probabilities = -1;  ///< reported besides that of a token; -1: not this either
  std::int32_t stop_count = 0;
  std::uint64_t seed = 0;
  sampling_parameters parameters;  ///< `bias` in the memory of the bodies
  token* text = nullptr;           ///< [length + remaining]
  const token* stops = nullptr;    ///< [stop_count] tokens that end the text
  token_census census;             ///< counts nothing unless the sampler asks

  HUNCH_HOST_DEVICE bool runs() const { return id != 0; }
  /// Of the text before the root, what the target has not read.
  HUNCH_HOST_DEVICE std::int32_t unread() const { return runs() ? length - 1 - cached : 0; }

  /// Why the text ends with token t, the `emitted`-th of a step, if it does.
  HUNCH_HOST_DEVICE finish_reason ends_with(token t, std::int32_t emitted) const {
    for (std::int32_t i = 0; i < stop_count; ++i) {
      if (stops[i] == t) { return finish_reason::stop_token; }
    }
    return emitted == remaining ? finish_reason::length : finish_reason::none;
  }

  /// Appends emitted tokens, of which token_of(i) is one. Collective; a `sync` must follow.
  /// \tparam Counts false where no sampler asks which tokens occur.
  template <bool Counts, Team T, class Tokens>
  HUNCH_HOST_DEVICE void append(T& team, std::int32_t count, const Tokens& token_of) {
    token* const end = text + length;
    team::for_few(team, count, [&](std::int32_t i) { end[i] = token_of(i); });
    if (team.rank() != 0) { return; }
    length += count;
    remaining -= count;
    if constexpr (Counts) {
      for (std::int32_t i = 0; i < count && census.counts(); ++i) { census.emit(end[i]); }
    }
  }
};

}  // namespace hunch

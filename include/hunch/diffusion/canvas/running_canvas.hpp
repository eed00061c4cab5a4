// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/sequence.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>

namespace hunch::diffusion {

/// How far a canvas is.
struct canvas_state {
  std::int32_t filled = 0;      ///< positions before it are unmasked
  std::int32_t masks = 0;       ///< positions that are not
  std::int32_t stopped_at = 0;  ///< the first stop token of the answer; canvas length: none
};

/// What a canvas is besides its `sequence`, whose text is all of it: prompt and answer, with the
/// mask token where nothing is unmasked. In the memory of the bodies.
struct running_canvas {
  request_id id = 0;        ///< of the sequence that it was begun for
  std::int32_t length = 0;  ///< positions
  std::int32_t answer = 0;  ///< the first position after the prompt
  std::int32_t block_length = 1;
  bool begins = false;        ///< no round of it has been completed
  bool draft_begins = false;  ///< nor one with a pass of the draft model over it
  canvas_state state;
  std::int32_t planned = 0;  ///< drafts that the next round may have
  std::int32_t opened = -1;  ///< where the block begins that a `BlockCachedModel` has a cache for

  /// The block of a position, and where it ends.
  HUNCH_HOST_DEVICE std::int32_t block_of(std::int32_t position) const {
    return (position - answer) / block_length;
  }
  HUNCH_HOST_DEVICE std::int32_t end_of_block(std::int32_t position) const {
    const std::int64_t end =
        answer + (static_cast<std::int64_t>(block_of(position)) + 1) * block_length;
    return end < length ? static_cast<std::int32_t>(end) : length;
  }
  /// Where the first block with masks begins.
  HUNCH_HOST_DEVICE std::int32_t known() const {
    return answer + block_of(state.filled) * block_length;
  }

  /// Why the text ends with an unmasking that has been written into it: its last mask is unmasked,
  /// or a stop token and all before it. Brings the state up to date. By one rank.
  HUNCH_HOST_DEVICE finish_reason ends_with(const unmasking& w, const sequence& s,
                                            token mask_token) {
    --state.masks;
    if (w.position < state.stopped_at && stops(s, w.t)) { state.stopped_at = w.position; }
    while (state.filled < length && s.text[state.filled] != mask_token) { ++state.filled; }
    if (state.stopped_at < state.filled) { return finish_reason::stop_token; }
    return state.masks == 0 ? finish_reason::length : finish_reason::none;
  }

  /// Whether a token ends the text of a sequence.
  HUNCH_HOST_DEVICE static bool stops(const sequence& s, token t) {
    for (std::int32_t i = 0; i < s.stop_count; ++i) {
      if (s.stops[i] == t) { return true; }
    }
    return false;
  }
};

}  // namespace hunch::diffusion

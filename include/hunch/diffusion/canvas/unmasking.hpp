// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>

namespace hunch::diffusion {

/// A token put in the place of a mask.
struct unmasking {
  std::int32_t position = -1;
  token t = no_token;

  friend constexpr bool operator==(const unmasking&, const unmasking&) = default;
};

/// What could be unmasked at a masked position, and how soon.
struct candidate {
  unmasking what;
  std::int32_t block = 0;  ///< of the position, counted from the left
  double score = 0.0;      ///< by the `Order`; the larger, the sooner
};

/// What is unmasked on a canvas next, or why nothing can be.
struct decision {
  unmasking what;  ///< after an error, the position whose row has it
  hunch::status status = hunch::status::ok;
};

/// What a verifier decided about the drafts of one request: how many are unmasked, and the one
/// unmasking after them.
struct unmask_verdict {
  std::int32_t accepted = 0;  ///< drafts
  std::int32_t canvas = 0;    ///< the one of the request's that just these are on
  decision next;              ///< an error: the drafts accepted so far stand, and nothing else does
};

/// A draft of the next round, and what length policies are given of it.
struct planned_draft {
  unmasking what;            ///< position -1: none
  std::int32_t block = 0;    ///< of the position, counted from the left
  std::int32_t digest = -1;  ///< index of its digest in the pass
  double probability = 0.0;  ///< of the token, see `position_digest`
  double entropy = 0.0;      ///< of its law in nats, if somebody asked
  bool drawn = false;        ///< by chance, not chosen as the most probable token
};

}  // namespace hunch::diffusion

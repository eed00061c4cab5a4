// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/position_digest.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/distribution/random.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

namespace hunch::diffusion {

/// The wanted positions of one canvas: [first, first + count) of the pass, by position. The first
/// `front` of them are those of the canvas's first block with masks.
struct canvas_positions {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t front = 0;
};

/// The drafts of one request, and on which canvases they are: on canvas 0, the committed text,
/// none; on each of the others one more than on a canvas before it.
struct drafted_canvases {
  std::int32_t drafted = 0;             ///< canvases with drafts
  std::int32_t proposed = 0;            ///< different drafts
  const unmasking* drafts = nullptr;    ///< [proposed]
  const std::uint64_t* sets = nullptr;  ///< [drafted + 1] bit i: drafts[i] is on the canvas
  unmasking* accepted = nullptr;        ///< [drafted] out, see `accept`

  /// The canvas that has w unmasked on it besides all that canvas r has, or -1.
  HUNCH_HOST_DEVICE std::int32_t after(std::int32_t r, unmasking w) const {
    for (std::int32_t c = 1; c <= drafted; ++c) {
      const std::int32_t i = added(r, c);
      if (i >= 0 && drafts[i] == w) { return c; }
    }
    return -1;
  }

  /// The one draft that canvas c has unmasked on it besides all that canvas r has: its index, or
  /// -1.
  HUNCH_HOST_DEVICE std::int32_t added(std::int32_t r, std::int32_t c) const {
    const std::uint64_t more = sets[c] ^ sets[r];
    if ((sets[c] & more) != more) { return -1; }
    for (std::int32_t i = 0; i < proposed; ++i) {
      if (more == std::uint64_t{1} << i) { return i; }
    }
    return -1;
  }

  /// The one draft that canvas c has more than the verdict's canvas is unmasked. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void accept(T& team, std::int32_t c, unmask_verdict& verdict) const {
    if (team.rank() == 0) { accepted[verdict.accepted] = drafts[added(verdict.canvas, c)]; }
    ++verdict.accepted;
    verdict.canvas = c;
  }
};

/// What a verifier decides about: the drafts of one request, and what the model makes of them.
/// \tparam Digests a `position_digests`.
template <class Digests>
struct drafts_view : drafted_canvases {
  const canvas_positions* canvases = nullptr;  ///< [drafted + 1]
  Digests digests;

  /// What decoding one token a pass would unmask into canvas r. Collective. The lowest position of
  /// those whose rows have an error decides, if there is one.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE decision choice(T& team, std::int32_t r) const {
    const canvas_positions at = canvases[r];
    candidate best;
    for (std::int32_t i = at.first; i < at.first + at.front; ++i) {
      const status s = digests(team, i).sure.status;
      const candidate c = digests.candidate_at(i);
      if (s != status::ok) { return {c.what, s}; }
      best = i == at.first || digests.order.before(c, best) ? c : best;
    }
    return {best.what};
  }

  /// The index of a position in the pass, as wanted of canvas r, or -1.
  HUNCH_HOST_DEVICE std::int32_t find(std::int32_t r, std::int32_t position) const {
    const canvas_positions at = canvases[r];
    for (std::int32_t i = at.first; i < at.first + at.count; ++i) {
      if (digests.wanted[i].position == position) { return i; }
    }
    return -1;
  }
};

/// Decides which drafts are unmasked.
///
/// 1. `v(team, view, verdict)` fills an `unmask_verdict`: `view.accept` for each draft that is
///    unmasked, which counts it and notes the unmasking, and then `next`; collective,
///    allocation-free, each rank its own. `view.choice(team, r)` is called for as few canvases as
///    will do.
/// 2. `V::lossless`: the unmaskings, positions and tokens in their order, are those of decoding one
///    token a pass.
///
/// Not required: a random source. What is drawn is drawn by the noise of the positions.
template <class V>
concept DraftVerifier = std::copyable<V> && std::is_trivially_copyable_v<V> && requires(
    const V& v, team::serial& t, unmask_verdict& out,
    const drafts_view<position_digests<float, sampler::greedy, order::confidence, random_source<>>>&
        view) {
  v(t, view, out);
  {std::bool_constant<V::lossless>{}};
};

}  // namespace hunch::diffusion

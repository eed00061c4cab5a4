// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/detail/canvas_rows.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/canvas/position_digest.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include <hunch/executor/executor.hpp>

namespace hunch::diffusion {

/// The canvases of a pass of one model, the positions that are wanted of them, and what its logits
/// say about these. The capacity is fixed at construction.
/// \tparam Digests a `position_digests`.
template <class Digests, class E>
class canvas_pass {
 public:
  using view_type = drafts_view<Digests>;

  /// \param batch requests in a pass at most. \param canvases of each. \param length positions of
  /// a canvas.
  canvas_pass(E& executor, std::int32_t batch, std::int32_t canvases, std::int32_t length)
      : rows_(executor, batch * canvases, length),
        positions_(executor, sized(batch) * sized(canvases) + 1),
        wanted_(executor, sized(batch) * sized(canvases) * sized(length)),
        digests_(executor, wanted_.size()),
        views_(executor, sized(batch)) {
    positions_.data()[positions_.size() - 1] = {};
  }

  void clear() { rows_.clear(); }
  std::int32_t size() const { return rows_.size(); }
  canvases view() const { return rows_.view(); }
  /// [requests] that `show` has filled.
  const view_type* views() const { return views_.data(); }
  const canvas_positions& positions(std::int32_t canvas) const { return positions_.data()[canvas]; }
  std::int32_t known(std::int32_t canvas) const { return rows_.known(canvas); }

  /// Appends a canvas: the text of r with some drafts filled in. Wanted are the masks of its first
  /// block with masks, and of more blocks until there are `enough`. Returns the canvas.
  std::int32_t push(step_place place, const running_canvas& r, std::span<const unmasking> drafts,
                    bool opens, std::int32_t enough, token mask_token) {
    const std::int32_t known = r.known();
    const std::int32_t canvas = rows_.push({.slot = place.slot,
                                            .tokens = r.tokens,
                                            .known = known,
                                            .block_end = r.end_of_block(known),
                                            .opens = opens});
    token* const tokens = rows_.tokens_of(canvas);
    for (const unmasking& w : drafts) { tokens[w.position] = w.t; }
    canvas_positions found{.first = rows_.wanted_size()};
    for (std::int32_t at = r.state.filled; at < r.length() && found.count < enough;) {
      const std::int32_t block = r.block_of(at);
      for (const std::int32_t end = r.end_of_block(at); at < end; ++at) {
        if (tokens[at] != mask_token) { continue; }
        wanted_.data()[rows_.wanted_size()] = {
            .logits = {}, .position = at, .block = block, .request = place.index};
        rows_.want(at);
        ++found.count;
      }
      if (found.front == 0) { found.front = found.count; }
    }
    positions_.data()[canvas] = found;
    return canvas;
  }

  /// What is decided about request k: drafts, on canvases from `canvas` on; a canvas of -1:
  /// nothing, and nobody asks. `digests` as the request has them, but for their arrays.
  void show(std::int32_t k, std::int32_t canvas, const drafted_canvases& drafts, Digests digests) {
    digests.wanted = wanted_.data();
    digests.made = digests_.data();
    const std::size_t from = canvas < 0 ? positions_.size() - 1 : sized(canvas);
    views_.data()[k] = {drafts, positions_.data() + from, digests};
  }

  /// Takes the logits of the pass, and makes the digests of all wanted positions where there are
  /// teams to spare; other digests are made when they are first read. Does not wait.
  template <class Evaluation>
  void take(E& executor, Evaluation& evaluation) {
    const std::int32_t wanted = rows_.wanted_size();
    for (std::int32_t i = 0; i < wanted; ++i) {
      wanted_.data()[i].logits = evaluation.logits(i);
      digests_.data()[i] = Digests::unmade;
    }
    const kernel::digest_positions<view_type> digest{views()};
    if (teams_at_once(executor, digest) > 1) { executor.launch(wanted, digest); }
  }

 private:
  template <class T>
  using buffer = typename E::template buffer<T>;

  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }

  canvas_rows<E> rows_;
  buffer<canvas_positions> positions_;  ///< of each canvas; the last ones are those of no canvas
  buffer<wanted_position<typename Digests::real>> wanted_;
  buffer<position_digest<typename Digests::real>> digests_;
  buffer<view_type> views_;
};

}  // namespace hunch::diffusion

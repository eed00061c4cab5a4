// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/request_slots.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/diffusion/canvas/request.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>

namespace hunch::diffusion {

/// The requests of a `diffusion::decoder`: what its host knows of each while it runs, and what came
/// out of the last round. Nothing here depends on what the decoder is composed of, so that a
/// program compiles it once.
class host_canvases {
 public:
  struct request {
    std::vector<token> tokens;  ///< the canvas
    std::size_t answer = 0;     ///< its first position after the prompt
    std::int32_t block_length = 1;
    std::vector<token> stop_tokens;
  };

  /// \param max_entries of a round in a slot.
  host_canvases(std::int32_t max_batch, std::int32_t max_entries, const char* owner)
      : max_entries_(index(max_entries)),
        slots_(max_batch, owner, "diffusion::decoder_options"),
        all_(index(max_batch)),
        unmaskings_(index(max_batch) * max_entries_),
        origins_(unmaskings_.size()) {
    emissions_.reserve(index(max_batch));
  }

  const request_slots& slots() const { return slots_; }
  const request& operator[](std::int32_t slot) const { return all_[index(slot)]; }

  /// Gives a slot to a request.
  request_id admit(std::int32_t slot, request&& r) {
    all_[index(slot)] = std::move(r);
    return slots_.admit(slot);
  }
  void release(std::int32_t slot) noexcept { slots_.release(slot); }

  /// A round begins: what the last one unmasked is gone.
  void begin_round() { emissions_.clear(); }

  /// Takes what was unmasked in a slot. Returns whether its request has ended: then it is to be
  /// released.
  bool advance(std::int32_t slot, const rings& out) {
    if (!slots_.uses(slot)) { return false; }
    request& r = all_[index(slot)];
    const std::size_t first = index(slot) * max_entries_;
    std::size_t count = 0;
    emission e;
    e.id = slots_[slot];
    out.take(slot, [&](const ring_entry& entry) {
      e.finish = entry.finish;
      e.status = entry.status;
      if (entry.t == no_token) {
        e.failed_position = entry.position;
        return;
      }
      r.tokens[index(entry.position)] = entry.t;
      unmaskings_[first + count] = {.position = entry.position, .t = entry.t};
      origins_[first + count] = entry.origin;
      ++count;
    });
    e.unmaskings = {unmaskings_.data() + first, count};
    e.origins = {origins_.data() + first, count};
    e.canvas = r.tokens;
    e.answer = answer_in(r.tokens, r.answer, r.stop_tokens, e.finish);
    emissions_.push_back(e);
    return e.finish != finish_reason::none;
  }

  std::span<const emission> emissions() const { return emissions_; }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  std::size_t max_entries_;
  request_slots slots_;
  std::vector<request> all_;           ///< [max_batch]
  std::vector<unmasking> unmaskings_;  ///< [max_batch, max_entries]
  std::vector<origin> origins_;        ///< [max_batch, max_entries]
  std::vector<emission> emissions_;
};

}  // namespace hunch::diffusion

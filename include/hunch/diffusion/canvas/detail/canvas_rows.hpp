// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/executor/owned_arrays.hpp>

namespace hunch::diffusion {

/// One canvas of a pass, but for its tokens and wanted positions; the fields are those of
/// `canvases`.
struct canvas_row {
  std::int32_t slot = no_slot;
  std::int32_t first = 0;
  std::int32_t known = 0;
  std::int32_t block_end = 0;
  bool opens = false;
  bool begins = false;
};

/// The arrays of `canvases`, to be written. A trivially copyable view.
struct canvas_arrays {
  std::int32_t* slot = nullptr;
  std::int32_t* first = nullptr;
  token* tokens = nullptr;
  std::int32_t* known = nullptr;
  std::int32_t* block_end = nullptr;
  std::uint8_t* opens = nullptr;
  std::int32_t* first_wanted = nullptr;
  std::int32_t* wanted = nullptr;
  std::uint8_t* begins = nullptr;

  /// For `count` canvases of `length` positions at most. \param arrays own what it points to.
  template <class M>
  static canvas_arrays make(owned_arrays<M>& arrays, std::int32_t count, std::int32_t length) {
    canvas_arrays of;
    arrays.give(count, of.slot, of.known, of.block_end, of.opens, of.begins);
    arrays.give(count + 1, of.first, of.first_wanted);
    arrays.give(std::int64_t{count} * length, of.tokens, of.wanted);
    return of;
  }

  HUNCH_HOST_DEVICE void set(std::int32_t at, const canvas_row& row) const {
    slot[at] = row.slot;
    first[at] = row.first;
    known[at] = row.known;
    block_end[at] = row.block_end;
    opens[at] = row.opens ? 1 : 0;
    begins[at] = row.begins ? 1 : 0;
  }
  /// A canvas of padding, behind `tokens_before` tokens.
  HUNCH_HOST_DEVICE void pad(std::int32_t at, std::int32_t tokens_before) const {
    set(at, {.slot = no_slot,
             .first = tokens_before,
             .known = 0,
             .block_end = 0,
             .opens = false,
             .begins = false});
  }

  /// The first `size` of them, to be read.
  canvases view(std::int32_t size, std::int32_t token_count, std::int32_t wanted_count) const {
    return {.size = size,
            .slot = slot,
            .first = first,
            .tokens = tokens,
            .known = known,
            .block_end = block_end,
            .opens = opens,
            .first_wanted = first_wanted,
            .wanted = wanted,
            .begins = begins,
            .token_count = token_count,
            .wanted_count = wanted_count};
  }
};

}  // namespace hunch::diffusion

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

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

/// Owns these arrays, buffers of M with a capacity fixed at construction.
template <class M>
class canvas_rows {
 public:
  /// \param count canvases at most. \param length positions of one at most.
  canvas_rows(M& memory, std::int32_t count, std::int32_t length)
      : slot_(memory, sized(count)),
        first_(memory, sized(count) + 1),
        tokens_(memory, sized(count) * sized(length)),
        known_(memory, sized(count)),
        block_end_(memory, sized(count)),
        opens_(memory, sized(count)),
        first_wanted_(memory, sized(count) + 1),
        wanted_(memory, sized(count) * sized(length)),
        begins_(memory, sized(count)) {}

  canvas_arrays arrays() const {
    return {.slot = slot_.data(),
            .first = first_.data(),
            .tokens = tokens_.data(),
            .known = known_.data(),
            .block_end = block_end_.data(),
            .opens = opens_.data(),
            .first_wanted = first_wanted_.data(),
            .wanted = wanted_.data(),
            .begins = begins_.data()};
  }

 private:
  template <class T>
  using buffer = typename M::template buffer<T>;

  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }

  buffer<std::int32_t> slot_;
  buffer<std::int32_t> first_;
  buffer<token> tokens_;
  buffer<std::int32_t> known_;
  buffer<std::int32_t> block_end_;
  buffer<std::uint8_t> opens_;
  buffer<std::int32_t> first_wanted_;
  buffer<std::int32_t> wanted_;
  buffer<std::uint8_t> begins_;
};

}  // namespace hunch::diffusion

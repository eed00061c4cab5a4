// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>

namespace hunch::diffusion {

/// One canvas of a pass; the fields are those of `canvases`.
struct canvas_row {
  std::int32_t slot = no_slot;
  std::span<const token> tokens;
  std::int32_t known = 0;
  std::int32_t block_end = 0;
  bool opens = false;
};

/// The arrays after `canvases`, with a capacity fixed at construction.
template <class Executor>
class canvas_rows {
 public:
  /// \param count canvases at most. \param length positions of one at most.
  canvas_rows(Executor& executor, std::int32_t count, std::int32_t length)
      : slot_(executor, sized(count)),
        first_(executor, sized(count) + 1),
        tokens_(executor, sized(count) * sized(length)),
        known_(executor, sized(count)),
        block_end_(executor, sized(count)),
        opens_(executor, sized(count)),
        first_wanted_(executor, sized(count) + 1),
        wanted_(executor, sized(count) * sized(length)) {
    clear();
  }

  void clear() {
    size_ = 0;
    first_.data()[0] = first_wanted_.data()[0] = 0;
  }
  std::int32_t size() const { return size_; }
  std::int32_t wanted_size() const { return first_wanted_.data()[size_]; }

  /// Appends a canvas, of which no position is wanted, and returns its index.
  std::int32_t push(const canvas_row& row) {
    const std::int32_t at = size_++;
    slot_.data()[at] = row.slot;
    std::ranges::copy(row.tokens, tokens_.data() + first_.data()[at]);
    first_.data()[at + 1] = first_.data()[at] + static_cast<std::int32_t>(row.tokens.size());
    known_.data()[at] = row.known;
    block_end_.data()[at] = row.block_end;
    opens_.data()[at] = row.opens ? 1 : 0;
    first_wanted_.data()[at + 1] = first_wanted_.data()[at];
    return at;
  }
  /// Of the last canvas, one more position.
  void want(std::int32_t position) { wanted_.data()[first_wanted_.data()[size_]++] = position; }

  token* tokens_of(std::int32_t i) const { return tokens_.data() + first_.data()[i]; }
  std::int32_t first_wanted(std::int32_t i) const { return first_wanted_.data()[i]; }
  std::int32_t wanted(std::int32_t i) const { return wanted_.data()[i]; }
  std::int32_t known(std::int32_t i) const { return known_.data()[i]; }

  canvases view() const {
    return {.size = size_,
            .slot = slot_.data(),
            .first = first_.data(),
            .tokens = tokens_.data(),
            .known = known_.data(),
            .block_end = block_end_.data(),
            .opens = opens_.data(),
            .first_wanted = first_wanted_.data(),
            .wanted = wanted_.data()};
  }

 private:
  template <class T>
  using buffer = typename Executor::template buffer<T>;

  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }

  std::int32_t size_ = 0;
  buffer<std::int32_t> slot_;
  buffer<std::int32_t> first_;
  buffer<token> tokens_;
  buffer<std::int32_t> known_;
  buffer<std::int32_t> block_end_;
  buffer<std::uint8_t> opens_;
  buffer<std::int32_t> first_wanted_;
  buffer<std::int32_t> wanted_;
};

}  // namespace hunch::diffusion

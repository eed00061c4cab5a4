// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/serial.hpp>
#include <hunch/team/team.hpp>

namespace hunch {

/// Which tokens occur in a sequence, and how often after its prompt; kept up to date token by
/// token, so that penalties touch what occurs and nothing else. A view of arrays that bodies read,
/// with its size in itself. Without arrays it counts nothing.
struct token_census {
  std::int32_t size = 0;            ///< different tokens
  token* tokens = nullptr;          ///< [as many as may occur] each once
  std::int32_t* emitted = nullptr;  ///< [likewise] how often after the prompt
  std::int32_t* index = nullptr;    ///< [vocab_size] where a token stands there, or -1

  HUNCH_HOST_DEVICE bool counts() const { return index != nullptr; }

  /// Counts a prompt, and nothing else: `size` is then right on rank 0. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void begin(T& team, std::int32_t vocab_size, const token* prompt,
                               std::int32_t length) {
    if (!counts()) { return; }
    std::int32_t* const places = index;
    team.for_each(vocab_size, [=](std::int64_t t) { places[t] = -1; });
    team.sync();
    size = 0;
    for (std::int32_t i = 0; team.rank() == 0 && i < length; ++i) { entry(prompt[i]); }
  }

  /// Counts a token of a prompt. By one rank.
  HUNCH_HOST_DEVICE void read(token t) { entry(t); }

  /// Counts an emitted token. By one rank.
  HUNCH_HOST_DEVICE void emit(token t) {
    if (counts()) { ++emitted[entry(t)]; }
  }

  HUNCH_HOST_DEVICE token_counts view() const {
    return {.size = size, .tokens = tokens, .emitted = emitted, .index = index};
  }

 private:
  HUNCH_HOST_DEVICE std::int32_t entry(token t) {
    std::int32_t& at = index[t];
    if (at < 0) {
      at = size++;
      tokens[at] = t;
      emitted[at] = 0;
    }
    return at;
  }
};

/// The census of a text that the host keeps, with its arrays: for engines with a loop of their own.
class counted_text {
 public:
  /// Counts a prompt; `more` tokens can follow without an allocation.
  /// \param prompt tokens in [0, vocab_size).
  counted_text(std::int32_t vocab_size, std::span<const token> prompt, std::size_t more)
      : tokens_(std::min(static_cast<std::size_t>(vocab_size), prompt.size() + more)),
        emitted_(tokens_.size()),
        index_(static_cast<std::size_t>(vocab_size)),
        census_{.size = 0,
                .tokens = tokens_.data(),
                .emitted = emitted_.data(),
                .index = index_.data()} {
    team::serial team;
    census_.begin(team, vocab_size, prompt.data(), static_cast<std::int32_t>(prompt.size()));
  }
  counted_text(const counted_text&) = delete;
  counted_text& operator=(const counted_text&) = delete;

  /// Counts an emitted token, of as many as were announced.
  void emit(token t) noexcept { census_.emit(t); }

  /// Valid as long as this; its size, until the next `emit`.
  token_counts view() const { return census_.view(); }

 private:
  std::vector<token> tokens_;
  std::vector<std::int32_t> emitted_;
  std::vector<std::int32_t> index_;
  token_census census_;
};

}  // namespace hunch

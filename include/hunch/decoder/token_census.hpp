// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <hunch/core/types.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/sized_buffer.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch {

/// Which tokens occur in a sequence, and how often after its prompt; kept up to date token by
/// token, so that penalties touch what occurs and nothing else. Lies where bodies read it.
template <Executor E>
class token_census {
 public:
  /// Of nothing; `emit` may not be called.
  token_census() = default;

  /// Counts a prompt; `more` tokens can follow without an allocation.
  /// \param prompt tokens in [0, vocab_size).
  token_census(E& executor, std::int32_t vocab_size, std::span<const token> prompt,
               std::size_t more)
      : index_(executor, static_cast<std::size_t>(vocab_size)),
        tokens_(executor, different(vocab_size, prompt.size() + more)),
        emitted_(executor, different(vocab_size, prompt.size() + more)) {
    for (std::int32_t t = 0; t < vocab_size; ++t) { index_.push_back(-1); }
    for (const token t : prompt) { entry(t); }
  }

  /// Counts an emitted token; no allocation within what was announced.
  void emit(token t) noexcept { ++emitted_[entry(t)]; }

  /// Valid as long as this; its size, until the next `emit`.
  token_counts view() const {
    return {.size = static_cast<std::int32_t>(tokens_.size()),
            .tokens = tokens_.data(),
            .emitted = emitted_.data(),
            .index = index_.data()};
  }

 private:
  /// So many different tokens there are at most.
  static std::size_t different(std::int32_t vocab_size, std::size_t tokens) {
    return std::min(static_cast<std::size_t>(vocab_size), tokens);
  }

  std::size_t entry(token t) noexcept {
    std::int32_t& at = index_[static_cast<std::size_t>(t)];
    if (at < 0) {
      at = static_cast<std::int32_t>(tokens_.size());
      tokens_.push_back(t);
      emitted_.push_back(0);
    }
    return static_cast<std::size_t>(at);
  }

  sized_buffer<std::int32_t, E> index_;
  sized_buffer<token, E> tokens_;
  sized_buffer<std::int32_t, E> emitted_;
};

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/sampler/sampler.hpp>

namespace hunch {

/// Which tokens occur in a sequence, and how often after its prompt; kept up to date token by
/// token, so that penalties touch what occurs and nothing else.
class token_census {
 public:
  token_census() = default;

  /// Counts a prompt; `more` tokens can follow without an allocation.
  /// \param prompt tokens in [0, vocab_size).
  token_census(std::int32_t vocab_size, const std::vector<token>& prompt, std::size_t more)
      : index_(static_cast<std::size_t>(vocab_size), -1) {
    tokens_.reserve(prompt.size() + more);
    emitted_.reserve(prompt.size() + more);
    for (const token t : prompt) { entry(t); }
  }

  /// Counts an emitted token; no allocation within what was announced.
  void emit(token t) noexcept { ++emitted_[entry(t)]; }

  /// In memory of the host, valid until the next `emit`.
  token_counts view() const {
    return {.size = static_cast<std::int32_t>(tokens_.size()),
            .tokens = tokens_.data(),
            .emitted = emitted_.data(),
            .index = index_.data()};
  }

 private:
  std::size_t entry(token t) {
    std::int32_t& at = index_[static_cast<std::size_t>(t)];
    if (at < 0) {
      at = static_cast<std::int32_t>(tokens_.size());
      tokens_.push_back(t);
      emitted_.push_back(0);
    }
    return static_cast<std::size_t>(at);
  }

  std::vector<std::int32_t> index_;
  std::vector<token> tokens_;
  std::vector<std::int32_t> emitted_;
};

}  // namespace hunch

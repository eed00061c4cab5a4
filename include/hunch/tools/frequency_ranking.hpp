// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// The layout that stores the tokens of `vocab_size` in the order of their number in `corpus`, the
/// most frequent first, the lower id first on ties; tokens in `keep` (end of text, byte tokens)
/// come before all others, by id. For `selector::frequency`. (FR-Spec: Zhao et al. 2025,
/// arXiv:2502.14856)
/// \throws std::invalid_argument for an id outside the vocabulary, or an empty vocabulary.
inline vocab_layout frequency_ranking(std::span<const token> corpus, std::int32_t vocab_size,
                                      std::span<const token> keep = {}) {
  if (vocab_size <= 0) {
    throw std::invalid_argument("hunch::frequency_ranking: the vocabulary is empty");
  }
  std::vector<std::int64_t> count(static_cast<std::size_t>(vocab_size));
  const auto at = [&](token t) -> std::int64_t& {
    if (t < 0 || t >= vocab_size) {
      throw std::invalid_argument(message(
          {"hunch::frequency_ranking: token ", t, " is outside the vocabulary of ", vocab_size}));
    }
    return count[static_cast<std::size_t>(t)];
  };
  for (const token t : corpus) { ++at(t); }
  const auto first = static_cast<std::int64_t>(corpus.size()) + 1;
  for (const token t : keep) { at(t) = first; }

  std::vector<token> ranked(static_cast<std::size_t>(vocab_size));
  std::iota(ranked.begin(), ranked.end(), token{0});
  std::stable_sort(ranked.begin(), ranked.end(), [&](token a, token b) { return at(a) > at(b); });
  return vocab_layout::permuted(std::move(ranked), vocab_size);
}

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <hunch/selector/selector.hpp>

namespace hunch::selector {

/// FR-Spec: the r most frequent tokens of a corpus, the same for every context. The head is stored
/// in the order of frequency, so that the shortlist is its prefix. (Zhao et al. 2025,
/// arXiv:2502.14856)
class frequency {
 public:
  /// The first `rows` rows of a head in the order of `ranked`.
  /// \throws std::invalid_argument if the head has no so many rows.
  frequency(vocab_layout ranked, std::int32_t rows) : layout_(std::move(ranked)), rows_(rows) {
    if (rows < 1 || rows > layout_.head_rows()) {
      throw std::invalid_argument("hunch::selector::frequency: " + std::to_string(rows) +
                                  " rows of a head of " + std::to_string(layout_.head_rows()));
    }
  }

  const vocab_layout& layout() const { return layout_; }
  static constexpr std::int32_t max_ranges() { return 1; }
  std::int32_t max_rows() const { return rows_; }

  prefix_chooser chooser() const { return {rows_}; }
  void select(const selector_contexts& contexts, const selector_lists& lists) const {
    choose_each(chooser(), contexts, lists);
  }

 private:
  vocab_layout layout_;
  std::int32_t rows_;
};

static_assert(ResidentSelector<frequency>);

/// The layout that stores the tokens of `vocab_size` in the order of their number in `corpus`,
/// the lower id first on ties; tokens in `keep` (end of text, byte tokens) come before all others.
/// \throws std::invalid_argument for an id outside the vocabulary.
inline vocab_layout frequency_ranking(std::span<const token> corpus, std::int32_t vocab_size,
                                      std::span<const token> keep = {}) {
  if (vocab_size <= 0) {
    throw std::invalid_argument("hunch::selector::frequency_ranking: the vocabulary is empty");
  }
  std::vector<std::int64_t> count(static_cast<std::size_t>(vocab_size));
  const auto at = [&](token t) -> std::int64_t& {
    if (t < 0 || t >= vocab_size) {
      throw std::invalid_argument("hunch::selector::frequency_ranking: token " + std::to_string(t) +
                                  " is outside the vocabulary of " + std::to_string(vocab_size));
    }
    return count[static_cast<std::size_t>(t)];
  };
  for (const token t : corpus) { ++at(t); }
  const auto first = static_cast<std::int64_t>(corpus.size()) + 1;
  for (const token t : keep) { at(t) = first; }
  for (std::int64_t& c : count) { c = -c; }  // ascending, so that a stable sort keeps ids ascending

  std::vector<token> ranked(static_cast<std::size_t>(vocab_size));
  thrust::sequence(thrust::host, ranked.begin(), ranked.end());
  thrust::stable_sort_by_key(thrust::host, count.begin(), count.end(), ranked.begin());
  return vocab_layout::permuted(std::move(ranked), vocab_size);
}

}  // namespace hunch::selector

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// What the vocabularies of a target and of a draft model have in common: the tokens that stand for
/// the same text, one of each for one of the other. For `other_vocabulary`. (Token-level
/// intersection: Timor et al. 2025, arXiv:2502.05202)
struct shared_vocabulary {
  /// [target's size] the draft model's token that it reads in the place of each.
  std::vector<token> reads;
  vocab_layout target;  ///< a row for every shared token, by the target's numbers
  vocab_layout draft;   ///< the same rows by the draft model's numbers

  std::int32_t size() const { return target.head_rows(); }

  /// The same rows in the order that a layout of the target has them in, and none that it has not.
  /// \throws std::invalid_argument if the layout is of another vocabulary, or shares no token.
  shared_vocabulary ordered(const vocab_layout& by) const {
    if (by.vocab_size() != target.vocab_size()) {
      throw std::invalid_argument(
          message({"hunch::shared_vocabulary: a layout of ", by.vocab_size(),
                   " tokens, and the target has ", target.vocab_size()}));
    }
    std::vector<token> of_target, of_draft;
    for (std::int32_t r = 0; r < by.head_rows(); ++r) {
      const token t = by.row_token() == nullptr ? r : by.row_token()[r];
      const std::int32_t row = target.token_row() == nullptr ? t : target.token_row()[t];
      if (row < 0) { continue; }
      of_target.push_back(t);
      of_draft.push_back(draft.row_token() == nullptr ? row : draft.row_token()[row]);
    }
    return {reads, vocab_layout::permuted(std::move(of_target), target.vocab_size()),
            vocab_layout::permuted(std::move(of_draft), draft.vocab_size())};
  }
};

/// Finds what two vocabularies share: tokens of the same text, the lowest number first where a
/// vocabulary has several, and the pairs that are named, as what begins and ends a text.
///
/// \param target_piece, draft_piece  piece(t) is what token t adds to a text; tokens that add
///        nothing are shared only as `pairs`.
/// \param stand_in  stand_in(t) is the draft model's token that it reads in the place of token t of
///        the target, where that has none of its own: of several that spell it, the last, say.
///        Exactness does not depend on it, only how many drafts are accepted.
/// \param pairs  of a token of the target and one of the draft model.
/// \throws std::invalid_argument if no token is shared, a pair is outside of its vocabulary or
/// names
///         a token twice, or a stand-in is outside of the draft model's vocabulary.
template <class TargetPiece, class DraftPiece, class StandIn>
shared_vocabulary share_vocabularies(std::int32_t target_size, const TargetPiece& target_piece,
                                     std::int32_t draft_size, const DraftPiece& draft_piece,
                                     const StandIn& stand_in,
                                     std::span<const std::pair<token, token>> pairs = {}) {
  std::vector<token> twin(static_cast<std::size_t>(target_size), no_token);
  std::vector<bool> is_taken(static_cast<std::size_t>(draft_size), false);
  const auto in = [](token t, std::int32_t size) { return t >= 0 && t < size; };
  for (const auto& [of_target, of_draft] : pairs) {
    if (!in(of_target, target_size) || !in(of_draft, draft_size) ||
        twin[static_cast<std::size_t>(of_target)] != no_token ||
        is_taken[static_cast<std::size_t>(of_draft)]) {
      throw std::invalid_argument(
          message({"hunch::share_vocabularies: the pair of ", of_target, " and ", of_draft,
                   " is outside of the vocabularies, or has a token that "
                   "another pair has"}));
    }
    twin[static_cast<std::size_t>(of_target)] = of_draft;
    is_taken[static_cast<std::size_t>(of_draft)] = true;
  }
  std::multimap<std::string_view, token> of_text;
  for (token t = 0; t < draft_size; ++t) {
    const std::string_view piece = draft_piece(t);
    if (!piece.empty() && !is_taken[static_cast<std::size_t>(t)]) { of_text.emplace(piece, t); }
  }
  for (token t = 0; t < target_size; ++t) {
    token& own = twin[static_cast<std::size_t>(t)];
    const auto found = own == no_token ? of_text.find(target_piece(t)) : of_text.end();
    if (found == of_text.end()) { continue; }
    own = found->second;
    of_text.erase(found);
  }

  std::vector<token> reads, rows, rows_of_draft;
  for (token t = 0; t < target_size; ++t) {
    const token own = twin[static_cast<std::size_t>(t)];
    if (own != no_token) {
      rows.push_back(t);
      rows_of_draft.push_back(own);
    }
    reads.push_back(own == no_token ? static_cast<token>(stand_in(t)) : own);
    if (!in(reads.back(), draft_size)) {
      throw std::invalid_argument(
          message({"hunch::share_vocabularies: ", reads.back(), " stands for token ", t,
                   ", outside of the draft model's vocabulary of ", draft_size}));
    }
  }
  if (rows.empty()) {
    throw std::invalid_argument("hunch::share_vocabularies: no token of one is one of the other");
  }
  return {std::move(reads), vocab_layout::permuted(std::move(rows), target_size),
          vocab_layout::permuted(std::move(rows_of_draft), draft_size)};
}

}  // namespace hunch

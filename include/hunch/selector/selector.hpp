// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// The nodes whose children are about to be drafted, all at the same depth.
struct selector_contexts {
  std::int32_t size = 0;
  std::int32_t depth = 0;         ///< of the children minus one: 0 for the root
  const token* tokens = nullptr;  ///< [size] the token of each node
  /// [size] of `RoutedSelector`s: what the draft model knows of each node, [context_width] numbers.
  /// Else nullptr.
  const float* const* states = nullptr;
  /// [size] which tree each node is in, those of one tree adjacent; nullptr: each in its own.
  const std::int32_t* trees = nullptr;

  std::int32_t tree_of(std::int32_t i) const { return trees == nullptr ? i : trees[i]; }
};

/// One shortlist per context, to be filled: ranges ascending, disjoint, not empty.
struct selector_lists {
  row_range* const* ranges = nullptr;  ///< [size] room for `max_ranges` ranges each
  std::int32_t* counts = nullptr;      ///< [size] out
};

/// Chooses the part of the vocabulary that the drafter may propose from. Any choice is exact as
/// long as it does not depend on what is drawn from it: the verifier's residual is over the full
/// vocabulary.
///
/// 1. `s.layout()` is the order of the head's rows, owned by the selector.
/// 2. `s.max_ranges()` is the largest number of ranges in a shortlist. Where that is always 1, a
///    static constexpr function saves half of what a verifier takes to compile.
/// 3. `s.max_rows()` is the largest number of rows in a shortlist: the room for draft logits.
/// 4. `s.select(contexts, lists)` writes one shortlist per context. Called by the host, with arrays
///    that it reaches. Allocates at most when there are more contexts than ever before.
///
/// Not required: the same shortlist for all contexts, or for the same context at another depth.
template <class S>
concept VocabSelector = requires(S& s, const selector_contexts& contexts,
                                 const selector_lists& lists) {
  { s.layout() } -> std::same_as<const vocab_layout&>;
  { s.max_ranges() } -> std::convertible_to<std::int32_t>;
  { s.max_rows() } -> std::convertible_to<std::int32_t>;
  s.select(contexts, lists);
};

/// A selector that looks at what a draft model knows; see `RoutedModel`.
///
/// 1. `s.context_width()` is how many numbers of a node it reads.
template <class S>
concept RoutedSelector = VocabSelector<S> && requires(const S& s) {
  { s.context_width() } -> std::convertible_to<std::int32_t>;
};

/// How many numbers of a node `s` reads, 0 if it has no router.
template <VocabSelector S>
std::int32_t context_width_of([[maybe_unused]] const S& s) {
  if constexpr (RoutedSelector<S>) {
    return s.context_width();
  } else {
    return 0;
  }
}

/// For how many parts of the layout shortlists of `s` come with shifts: 0 where they are one range.
template <VocabSelector S>
std::int32_t shifted_parts_of(const S& s) {
  return s.max_ranges() > 1 ? s.layout().parts() : 0;
}

/// Whether every shortlist of a selector is known to be one range: rules are compiled for less.
template <class S>
inline constexpr bool selects_one_range = requires {
  requires std::remove_cvref_t<S>::max_ranges()
  == 1;
};

/// A selector that has a say in the draft law, too.
///
/// 1. `s.advise(rows)` changes the logits of head rows whose lists the last `select` has chosen, in
///    the order of its contexts, before anything is drawn from them. Called by the host, after the
///    executor has been waited for. What it does may depend on what `select` saw and on the logits.
template <class S, class Real = float>
concept AdvisingSelector = VocabSelector<S> && requires(S& s, const head_rows<Real>& rows) {
  s.advise(rows);
};

/// A selector whose choice is a function of the token and the depth alone, which bodies can call.
///
/// 1. `s.chooser()` is a trivially copyable function object: chooser(t, depth, ranges) writes the
///    ranges of the shortlist for the node of token t at `depth` and returns their number.
template <class S>
concept ResidentSelector = VocabSelector<S> && requires(const S& s, row_range* ranges) {
  { s.chooser()(token(0), std::int32_t(0), ranges) } -> std::same_as<std::int32_t>;
  requires std::is_trivially_copyable_v<decltype(s.chooser())>;
};

namespace selector {

/// Chooses the first rows of the head, as many as a budget allows.
template <Budget B = budget::fixed>
struct prefix_chooser {
  B rows;

  HUNCH_HOST_DEVICE std::int32_t operator()(token, std::int32_t depth, row_range* ranges) const {
    ranges[0] = {0, rows.at(depth)};
    return 1;
  }
};

/// Chooses for each context on its own.
template <class Chooser>
void choose_each(const Chooser& chooser, const selector_contexts& contexts,
                 const selector_lists& lists) {
  for (std::int32_t i = 0; i < contexts.size; ++i) {
    lists.counts[i] = chooser(contexts.tokens[i], contexts.depth, lists.ranges[i]);
  }
}

}  // namespace selector
}  // namespace hunch

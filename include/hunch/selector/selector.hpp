// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/budget.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// The nodes whose children are about to be drafted, all at the same depth: arrays that bodies of
/// an executor reach.
struct selector_contexts {
  std::int32_t size = 0;          ///< with padding, where the host does not know how many there are
  std::int32_t depth = 0;         ///< of the children minus one: 0 for the root
  const token* tokens = nullptr;  ///< [size] the token of each node
  /// [size] of `RoutedSelector`s: what the draft model knows of each node, [context_width] numbers.
  /// Else nullptr.
  const float* const* states = nullptr;
  /// [size] which tree each node is in, those of one tree adjacent; nullptr: each in its own.
  const std::int32_t* trees = nullptr;

  HUNCH_HOST_DEVICE std::int32_t tree_of(std::int32_t i) const {
    return trees == nullptr ? i : trees[i];
  }
};

/// One shortlist per context, to be filled by bodies: ranges ascending, disjoint, not empty.
struct selector_lists {
  row_range* const* ranges = nullptr;  ///< [size] room for `max_ranges` ranges each; nullptr where
                                       ///< the context is padding
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
/// 4. `S::memory<E>`, constructed from (selector, executor, capacity), is what it needs in memory
///    of an executor, for so many contexts at a depth: `selector::no_memory<E>` for nothing.
/// 5. `s.select(memory, executor, contexts, lists)` launches what writes one shortlist per context;
///    `selector::choose_each` is a body for what each context has to itself. Allocates nothing.
///
/// Not required: the same shortlist for all contexts, or for the same context at another depth. Nor
/// `s.chooser()`, of which `select` then launches `choose_each`: a step of a single sequence on a
/// device chooses without a launch of its own where it knows that.
template <class S>
concept VocabSelector = requires(S& s, const selector_contexts& contexts,
                                 const selector_lists& lists, executor::host& executor,
                                 typename S::template memory<executor::host>& memory) {
  { s.layout() } -> std::same_as<const vocab_layout&>;
  { s.max_ranges() } -> std::convertible_to<std::int32_t>;
  { s.max_rows() } -> std::convertible_to<std::int32_t>;
  requires std::constructible_from < typename S::template memory<executor::host>,
  const S&, executor::host&, std::int32_t > ;
  s.select(memory, executor, contexts, lists);
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
/// 1. `s.advise(memory, executor, rows)` launches what changes the logits of head rows whose lists
///    the last `select` has chosen, in the order of its contexts, before anything is drawn from
///    them. What it does may depend on what `select` saw and on the logits.
template <class S, class Real = float>
concept AdvisingSelector = VocabSelector<S> &&
    requires(S& s, typename S::template memory<executor::host>& memory, executor::host& executor,
             const head_rows<Real>& rows) {
  s.advise(memory, executor, rows);
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

/// The memory of a selector that needs none.
template <class E>
struct no_memory {
  template <class S>
  no_memory(const S&, E&, std::int32_t) {}
};

/// Chooses the shortlist of context `i`: chooser(token, depth, ranges) writes its ranges and
/// returns their number. One rank does.
template <class Chooser>
struct choose_each {
  Chooser chooser;
  selector_contexts contexts;
  selector_lists lists;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    if (lists.ranges[i] == nullptr || team.rank() != 0) { return; }
    lists.counts[i] = chooser(contexts.tokens[i], contexts.depth, lists.ranges[i]);
  }
};
template <class Chooser>
choose_each(Chooser, selector_contexts, selector_lists) -> choose_each<Chooser>;

}  // namespace selector
}  // namespace hunch

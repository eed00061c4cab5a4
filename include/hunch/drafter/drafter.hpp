// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/found_rows.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// What a decoder tells its drafter once, at construction.
struct drafter_setup {
  std::int32_t max_batch = 1;
  std::int32_t chunk = 256;   ///< prompt tokens that one step reads per sequence
  std::int32_t chunks = 256;  ///< of all sequences
  /// Tokens of a text at most, prompt and answer. A drafter that keeps something for each has room
  /// for so many before the first step, or refuses in `check` what it has no room for.
  std::int32_t max_length = std::numeric_limits<std::int32_t>::max();
  std::int32_t vocab_size = 0;           ///< of the target
  const vocab_layout* layout = nullptr;  ///< of the selector
  std::int32_t context_width = 0;        ///< what a `RoutedSelector` reads of a node, else 0
  std::int32_t max_rows = 0;             ///< of a shortlist
  std::int32_t hidden_size = 0;          ///< of what it reads of the target's pass, else 0
  std::int32_t merged_depth = 0;  ///< levels of the tree that its own is merged into, else 0: so
                                  ///< many tokens of a step it may not have drafted itself
  bool contested = false;  ///< where it drafts nothing another one does, see `drafter::cascade`
  bool has_laws = false;  ///< verifiers read laws: one that `is_certain` writes those of its tokens
};

/// What became of one sequence in a step. Its rows in the target's evaluation begin at
/// `first_row`: `prefix` rows of prompt tokens, then one row per evaluated node of the tree that
/// was verified. That is the drafter's own, unless an ensemble has merged it with others; then
/// `path` is the part of the accepted path that the drafter's own tree has, too.
struct draft_outcome {
  std::int32_t slot = no_slot;  ///< `no_slot`: the slot had no sequence in this step
  std::int32_t first_row = 0;
  std::int32_t prefix = 0;
  const std::int32_t* path = nullptr;  ///< [kept] accepted nodes that enter the cache, in order;
                                       ///< nullptr: the sequence was not verified
  std::int32_t kept = 0;
  /// Levels of the draft that the target has seen, where they are fewer than were drawn.
  std::int32_t seen_levels = std::numeric_limits<std::int32_t>::max();
  std::int32_t last_row = 0;  ///< of the last node of the accepted path that enters the cache, else
                              ///< of the root; of a sequence that `goes_on`
  bool finished = false;      ///< the request has ended, also with an error: the slot is released

  /// Whether it was verified and goes on.
  HUNCH_HOST_DEVICE bool goes_on() const { return !finished && path != nullptr; }
};

/// What became of a step.
struct draft_outcomes {
  std::int32_t slots = 0;
  const draft_outcome* of = nullptr;  ///< [slots] where bodies reach it, as the paths
  /// [rows of the target's pass, 1 or streams of a node] the hidden states, or the streams, that a
  /// drafter reads, at least of the `last_row` of each slot that goes on. None exist if the pass
  /// had none, as while nothing drafts, or the model has thrown when it was asked for them.
  row_places<const float> states;
};

/// Proposes a draft tree for every slot with a sequence.
///
/// 1. `D::max_nodes` is the capacity of a tree with its root; `D::children`, how siblings come
///    about; `D::is_chain`, whether trees have width one; `D::uses_selector`, whether it has a
///    head over a shortlist; `D::needs_hidden`, whether it reads the target's hidden states. If it
///    has `D::law_rows`, so many rows of draft logits of a tree are there at the same time; if it
///    has `D::max_depth`, a tree has no more levels below the root. If it has `D::streams`, it
///    reads so many streams of every node of the target's pass, if they are there: see
///    `draft_outcomes`. If it `needs_hidden` or has streams, `d.hidden_size()` is the size of the
///    states that it reads.
/// 2. `D::state<Real, Executor>`, constructed from (drafter, executor, setup), is its memory. The
///    decoder owns it; a drafter itself is only its parameters and its model.
/// 3. `d.check(setup)` throws `std::invalid_argument` naming the two things that do not fit.
/// 4. `d.propose(state, slots, contexts, drafts, selector, sampler, draw, executor)` grows the
///    trees of `drafts.view()` for slot < slots, which the caller has planted, node by node.
///    Contexts and trees lie where bodies reach them: it launches what grows them. A slot without a
///    sequence has a context of length 0 and no tree. `selector` is a `selecting`, and `draw` a
///    `child_draw`: how tokens are drawn from laws. Nothing is final; it may throw.
///    A token outside of the vocabulary ends its tree, and the request if the text gets there.
/// 5. `d.observe(state, outcomes, evaluation, executor)` makes it final: what was kept of each
///    sequence. Only here does a drafter advance, but for a cache of committed text that it catches
///    up with. It does not throw and does not allocate. What is drafted depends on the text, on the
///    contexts and on what was observed; not on how much of it was read.
/// 6. `d.release(state, slot, executor)` forgets a sequence between two steps; noexcept.
///
/// Not required: a model, a law (ranked drafters have none), a draft for every sequence. One whose
/// drafts come about as is chosen when the program runs has `d.chosen()`, their `draft_traits`:
/// then what does not fit is refused by the decoder's constructor; see `drafter::one_of`.
template <class D>
concept Drafter =
    requires(std::remove_reference_t<D>& d, const drafter_setup& setup,
             typename std::remove_reference_t<D>::template state<float, executor::host>& s,
             executor::host& executor) {
  {std::integral_constant<std::int32_t, std::remove_reference_t<D>::max_nodes>{}};
  {std::integral_constant<child_law, std::remove_reference_t<D>::children>{}};
  {std::bool_constant<std::remove_reference_t<D>::is_chain>{}};
  {std::bool_constant<std::remove_reference_t<D>::uses_selector>{}};
  {std::bool_constant<std::remove_reference_t<D>::needs_hidden>{}};
  d.check(setup);
  { d.release(s, 0, executor) }
  noexcept;
};

/// Rows of draft logits that a decoder keeps of each tree: unless D says so, one for every node
/// that can have children.
template <class D>
constexpr std::int32_t law_rows_of() {
  if constexpr (!D::uses_selector) {
    return 0;
  } else if constexpr (requires { D::law_rows; }) {
    return D::law_rows;
  } else {
    return D::max_nodes - 1;
  }
}

/// Levels of a tree below its root: as many as a chain of its nodes has unless D says so.
template <class D>
constexpr std::int32_t max_depth_of() {
  if constexpr (requires { D::max_depth; }) {
    return D::max_depth;
  } else {
    return D::max_nodes - 1;
  }
}

/// Streams of every node that a drafter reads: none unless D says so.
template <class D>
constexpr std::int32_t streams_of() {
  if constexpr (requires { D::streams; }) {
    return D::streams;
  } else {
    return 0;
  }
}

/// What verifiers ask of drafts: see point 1 of `Drafter`.
struct draft_traits {
  child_law children = child_law::ranked;
  bool is_chain = false;
};

/// Whether the traits of a drafter's drafts are those of what was chosen when the program ran.
template <class D>
inline constexpr bool is_chosen_drafter = requires(const D& d) {
  { d.chosen() } -> std::same_as<draft_traits>;
};

template <class D>
draft_traits traits_of_drafts(const D& d) {
  if constexpr (is_chosen_drafter<D>) {
    return d.chosen();
  } else {
    return {D::children, D::is_chain};
  }
}

/// Numbers of each state of the target, hidden or of a stream, that a drafter reads; 0: it reads
/// none.
template <class D>
std::int32_t hidden_size_of(const D& drafter) {
  if constexpr (D::needs_hidden || streams_of<D>() > 0) {
    return drafter.hidden_size();
  } else {
    return 0;
  }
}

/// Whether the depth of a draft depends on what the host's clock taught, by `static constexpr bool
/// needs_clock = true`: no loop that repeats itself has one.
template <class D>
inline constexpr bool drafts_by_clock = requires {
  requires D::needs_clock;
};

/// Whether the trees of a drafter that ranks are chains of which each token can be given a law,
/// that it is certain of it, by `static constexpr bool is_certain = true`: where others draw,
/// verifiers take both.
template <class D>
inline constexpr bool is_certain = requires {
  requires D::is_certain;
};

/// Whether a drafter's own model has read nodes of its tree, by `static constexpr bool
/// reads_own_draft = true`: they must keep their numbers until the step is observed.
template <class D>
inline constexpr bool reads_own_draft = requires {
  requires D::reads_own_draft;
};

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>

/// \file
/// The contracts of the models. A target model is anything with three functions; a draft model
/// has five. The library owns no weight format, no attention and no cache.

namespace hunch {

namespace detail {

template <class T>
inline constexpr bool is_row_view = false;
template <class T>
inline constexpr bool is_row_view<row_view<T>> = !std::is_const_v<T>;

}  // namespace detail

/// The result of a target's forward pass.
///
/// 1. `e.logits(i)` is a mutable `row_view<T>` of V logits for row i of the pass, for every row
///    that was wanted and whose status is `ok`; it stays valid until the next `evaluate`. The
///    library edits these rows in place (masks, penalties), at most once. T is a `LogitType`.
/// 2. `e.status(i)` is `status::ok`, or `status::cache_full` where the model had no room for row
///    i; then the later rows of that sequence in the pass have none either.
///
/// Bodies of the decoder's executor read and edit the logits, which are complete by the time that
/// it runs what it is given next. The host reads statuses as soon as `evaluate` has returned,
/// but where it does not read the executor's memory (see `host_reads`).
///
/// Not required: ownership, contiguity between rows, or logits of rows that were not wanted.
template <class E>
concept Evaluation = requires(E& e, std::int32_t i) {
  { e.status(i) } -> std::same_as<status>;
  e.logits(i);
  requires detail::is_row_view<decltype(e.logits(i))>;
};

/// The type of an evaluation's logits.
template <Evaluation E>
using logit_type = std::remove_reference_t<decltype(std::declval<E&>().logits(0)[0])>;

/// An evaluation that also gives the target's hidden states, for drafters that read them.
///
/// 1. `e.hidden(i)` is a `row_view` of the hidden state of wanted row i, as many floats as the
///    drafter's `hidden_size()`, valid as long as its logits are. A body copies it.
template <class E>
concept HiddenStates = Evaluation<E> && requires(E& e, std::int32_t i) {
  e.hidden(i).data;
  { e.hidden(i).size } -> std::convertible_to<std::int32_t>;
};

/// An evaluation that also gives hidden states of speculative streams: beside each wanted row that
/// is `ok`, `rows::streams` states more, of which stream j says what the target might make of the
/// token j + 1 after the one that it has the law of. (Bhendawade et al. 2024, arXiv:2402.11131)
///
/// 1. `e.stream(i, j)` is a `row_view` of the state of stream j, counted from 0, of wanted row i,
///    valid as long as the row's logits are: what the language-model head reads.
///
/// The logits of the rows are what they are without streams, bit for bit where the text is to be
/// too: streams read the rows, and rows do not read streams. Streams are not cached.
template <class E>
concept SpeculativeStreams = Evaluation<E> && requires(E& e, std::int32_t i) {
  e.stream(i, i).data;
  { e.stream(i, i).size } -> std::convertible_to<std::int32_t>;
};

/// The model whose law is to be kept.
///
/// 1. `m.vocab_size()` is the number of logits in a row.
/// 2. `m.evaluate(rows)` runs one forward pass over the rows (see `rows`) and returns an
///    `Evaluation`. It changes nothing but staged rows; it may throw.
/// 3. `m.commit(kept)` appends the kept staged rows to the caches and drops the caches of released
///    sequences. It does not throw and does not allocate. A slot that was never used, or was
///    released, has an empty cache. The lists of `kept` stay as they are until the executor has run
///    what it was given. It may do no more than note what is kept, and change the caches when the
///    next pass begins, which may fail; see `branch_plan`.
///
/// Not required: a batch dimension (rows are ragged), a rollback call, copyability, any type for
/// weights or caches. Reading a prompt is `evaluate` in pieces without wanted rows.
template <class M>
concept TargetModel = requires(M& m, const rows& r, const kept_rows& kept) {
  { m.vocab_size() } -> std::convertible_to<std::int32_t>;
  { m.evaluate(r) } -> Evaluation;
  { m.commit(kept) }
  noexcept;
};

/// What a target model's pass returns, and the type of its logits.
template <TargetModel M>
using evaluation_of = decltype(std::declval<M&>().evaluate(std::declval<const rows&>()));
template <TargetModel M>
using model_logit = logit_type<evaluation_of<M>>;

/// A model that proposes tokens.
///
/// 1. `m.vocab_size()` is the number of tokens that it can read; it equals the target's.
/// 2. `m.forward(rows)` runs the layers and returns the hidden states of the wanted rows, with
///    `h.status(i)` as in `Evaluation`. It changes nothing but staged rows; it may throw.
/// 3. `m.head(hidden, head_rows)` writes the logits of the listed hidden rows over the given row
///    ranges of its head: position i of a shortlist to element i of the row. They are complete by
///    the time that the executor runs what it is given next. It may throw. In place of writing a
///    row it may let `logits[i].data` point to a mutable row of its own that stays until `commit`,
///    or only until its next pass if the model `lends_for_a_pass`.
/// 4. `m.head_order()` is the `order()` of the `vocab_layout` in whose order the head is stored
///    (`vocab_layout::identity(V).order()` for a head that nobody permuted). The decoder compares
///    it with the selector's layout. It says nothing of the weights: see `head_fingerprint`.
/// 5. `m.commit(kept)` as for `TargetModel`.
///
/// Not required: the target's hidden size, tokenizer code, or cache layout.
template <class M, class Real = float>
concept DraftModel = requires(M& m, const rows& r, const kept_rows& kept, const head_rows<Real>& h,
                              std::int32_t i) {
  { m.vocab_size() } -> std::convertible_to<std::int32_t>;
  { m.head_order() } -> std::same_as<std::uint64_t>;
  // std::declval and not a parameter: nvcc 13 knows no parameter that depends on another.
  { std::declval<decltype(m.forward(r))&>().status(i) } -> std::same_as<status>;
  m.head(std::declval<decltype(m.forward(r))&>(), h);
  { m.commit(kept) }
  noexcept;
};

namespace detail {

// Of one of the types that a target may have, which the model is not told yet.
template <class M>
inline constexpr bool is_draft_model =
    DraftModel<M> || DraftModel<M, bfloat16> || DraftModel<M, float16> || DraftModel<M, double>;

}  // namespace detail

/// Whether rows that a draft model lends in `head` stay only until its next pass, by `static
/// constexpr bool lends_for_a_pass = true`. What is read after that, the laws of drawn children, is
/// copied when they are drawn.
template <class M>
inline constexpr bool lends_for_a_pass = requires {
  requires std::remove_reference_t<M>::lends_for_a_pass;
};

/// Whether a draft model reads accepted tokens again, by `static constexpr bool rereads_accepted =
/// true`: one whose rows depend on what the target made of the tokens before them, as EAGLE's do,
/// which it only guessed while it drafted. Drafted rows are then never kept.
template <class M>
inline constexpr bool rereads_accepted = requires {
  requires std::remove_reference_t<M>::rereads_accepted;
};

/// Whether a model has one state for a sequence, which holds no branches, by `static constexpr bool
/// has_one_state = true`: one with recurrent layers, say; see `checkpoint_plan`. Its drafts are
/// chains.
template <class M>
inline constexpr bool has_one_state = requires {
  requires std::remove_reference_t<M>::has_one_state;
};

/// Whether the rows of a target are those of one rank of several, by `static constexpr bool
/// gives_shards = true`; see `sharded_target`.
template <class M>
inline constexpr bool gives_shards = requires {
  requires std::remove_reference_t<M>::gives_shards;
};

/// Heads that draft several tokens ahead from what the target's pass returned of one node: its
/// hidden state, as Medusa's do, or its speculative streams, of which head j reads stream j.
///
/// 1. `m.vocab_size()` and `m.head_order()` as for `DraftModel`; `m.hidden_size()`, how many
///    values a state has that they read; `m.heads()`, how many tokens ahead they draft.
/// 2. `m.forward(inputs)` returns their hidden states: row i * heads() + j is that of head j, which
///    drafts depth j + 1, for input i (see `head_inputs`). Rows of streams that an input does not
///    have are left out. It may throw.
/// 3. `m.head(hidden, head_rows)` as for `DraftModel`.
///
/// Not required: a cache; what they know of the text is in the target's states.
template <class M, class Real = float>
concept DraftHeads = requires(M& m, const head_inputs& inputs, const head_rows<Real>& h) {
  { m.vocab_size() } -> std::convertible_to<std::int32_t>;
  { m.hidden_size() } -> std::convertible_to<std::int32_t>;
  { m.heads() } -> std::convertible_to<std::int32_t>;
  { m.head_order() } -> std::same_as<std::uint64_t>;
  m.head(std::declval<decltype(m.forward(inputs))&>(), h);
};

namespace detail {

template <class M>
inline constexpr bool are_draft_heads =
    DraftHeads<M> || DraftHeads<M, bfloat16> || DraftHeads<M, float16> || DraftHeads<M, double>;

}  // namespace detail

/// Whether a draft model is a view of the target that shares its cache, by `static constexpr bool
/// shares_target_cache = true`: its first layers, as an early-exit drafter uses, or its weights in
/// fewer bits. What the target has read is read. Of a view that also `rereads_accepted` the target
/// takes over nothing: it reads no prompt, and drafts after the target has. A row of a step is the
/// target's row of that position and token after the same ancestors; its staged id is the same too,
/// unless the trees are merged or pruned on the way.
template <class M>
inline constexpr bool shares_target_cache = requires {
  requires std::remove_reference_t<M>::shares_target_cache;
};

namespace detail {

template <class M>
concept has_context_of_row = requires(M& m, const rows& r, std::int32_t i) {
  { std::declval<decltype(m.forward(r))&>().context(i) } -> std::convertible_to<const float*>;
};
template <class M>
concept has_early_contexts = requires(M& m, const rows& r) {
  { m.contexts(r) } -> std::same_as<context_rows>;
};
template <class M>
concept has_late_contexts = requires(M& m, const rows& r) {
  { std::declval<decltype(m.forward(r))&>().contexts() } -> std::same_as<context_rows>;
};

}  // namespace detail

/// A draft model that tells routers what it knows of a row.
///
/// 1. `m.context_width()` is the number of values for a row: the states that the head is about to
///    read, or whatever a router was trained on. They lie where bodies reach them, and are complete
///    by the time that the executor runs what it is given next. One of three gives them:
/// 2. `m.contexts(rows)` is called before `m.forward(rows)` with the same rows, and launches what
///    writes their contexts, which stay until the next call. Where no host waits in between, the
///    router then runs beside the pass.
/// 3. `h.contexts()`, of all rows, for the hidden states h that `forward` returns, if contexts
///    depend on the pass: they may be its states. Valid as long as h.
/// 4. `h.context(i)`, [context_width] of a wanted row i, likewise; not where the host
///    does not read the executor's memory and so does not know which row that is.
template <class M>
concept RoutedModel = requires(M& m) {
  { m.context_width() } -> std::convertible_to<std::int32_t>;
  requires detail::has_context_of_row<M> || detail::has_late_contexts<M> ||
      detail::has_early_contexts<M>;
};

}  // namespace hunch

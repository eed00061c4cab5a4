// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <hunch/distribution/law.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/over_row.hpp>
#include <hunch/team/team.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch {

/// One row of target logits and what its law depends on.
template <class Real>
struct target_row {
  row_view<Real> logits;  ///< [V] in the order of the tokens
  sampling_parameters parameters;
  row_history history;  ///< without a `list`
};

/// Whether the laws of so many rows are made side by side, before a rule asks for them one after
/// the other for each sequence. \param eager_rows what was asked for: up to so many; -1: as long as
/// that is likely to be sooner. A host has as much to read as before, and more of it: never. A
/// device has processors to spare: of a chain most rows are read, of a tree one path.
template <bool HostReads, bool IsChain>
constexpr bool makes_laws_ahead(std::int64_t rows, std::int32_t eager_rows) {
  constexpr std::int32_t likely = HostReads ? 0 : IsChain ? 512 : 128;
  return rows <= (eager_rows < 0 ? likely : eager_rows);
}

/// See `sampled_laws`.
struct nothing_told {};

/// The target's laws of one sequence, each made when it is first read and kept: a sampler may
/// edit a row only once, and rows that no rule reads are never read. New logits need `unmade` laws;
/// the laws are views of the logits, which stay in place while they are used.
/// \tparam Rows gives the `target_row` of node c as rows[c]. \tparam Made likewise the law made.
/// \tparam Told keeps what other ranks hold of the rows: told.of(c, row) are the
///         `team::told_elements` of node c, told.logit(child) is one of them, by the bits that were
///         told; told.keep_sums(team, c, law) and told.recall_sums(team, c, law) keep what the team
///         remembers of a law. `nothing_told` where a rank has whole rows.
template <class Real, class S, class Rows = const target_row<Real>*, class Made = law<Real>*,
          class Told = nothing_told>
struct sampled_laws {
  Rows rows = {};  ///< [nodes]
  Made made = {};  ///< [nodes]; begins with `unmade` elements
  S sampler;
  Told told_rows = {};

  /// Of a rule that makes laws as it needs them: it has few registers left, see `team::loads_of`.
  static constexpr int loads = 8;

  /// A law that has not been made.
  static constexpr law<Real> unmade{};

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> operator()(T& team, std::int32_t c) const {
    law<Real> l = made[c];
    if (l.logits.data == nullptr) {
      l = make(team, c);
      team.sync();
    } else if constexpr (team::spans_ranks<T> && !std::same_as<Told, nothing_told>) {
      told_rows.recall_sums(team, c, l);
    }
    return l;
  }
  /// Makes the law after node c, which has none. Collective, and no barrier afterwards.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE law<Real> make(T& team, std::int32_t c) const {
    const target_row<Real> row = rows[c];
    if constexpr (team::spans_ranks<T> && !std::same_as<Told, nothing_told>) {
      team.tell_with_next(told_rows.of(c, row.logits));
    }
    const law<Real> l = sampler(team, row.logits, row.parameters, row.history);
    if constexpr (team::spans_ranks<T> && !std::same_as<Told, nothing_told>) {
      told_rows.keep_sums(team, c, l);
    }
    team.sync();  // every rank has seen that it was not made
    if (team.rank() == 0) { made[c] = l; }
    return l;
  }
  HUNCH_HOST_DEVICE bool is_known(std::int32_t c) const { return made[c].logits.data != nullptr; }
  HUNCH_HOST_DEVICE law<Real> known(std::int32_t c) const { return made[c]; }
  /// What a rule has asked of node c ahead; nullptr: it has not been asked.
  HUNCH_HOST_DEVICE const std::uint64_t* ahead(std::int32_t c) const
      requires(!std::same_as<Told, nothing_told>) {
    return told_rows.ahead(c);
  }
  HUNCH_HOST_DEVICE real_of<Real> told(std::int32_t child) const
      requires(!std::same_as<Told, nothing_told>) {
    return to_real(told_rows.logit(child));
  }
};

namespace kernel {

/// Makes the law of row `index` before any verifier asks: rows in parallel, where there are teams
/// to spare. One team per row. A row without a law gets one that carries its error.
template <class Real, class S>
struct make_laws {
  sampled_laws<Real, S> laws;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;
  static constexpr int loads = team::loads_of<S>;
  static constexpr int blocks = sizeof(Real) > sizeof(float) ? 1 : team::blocks_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    if (!laws.is_known(index)) { laws.make(team, index); }
  }
};

/// Verifies the draft of sequence `index`. One team per sequence. Lossless if V is. Errors of rows
/// are the verdict's; that drafted tokens are in the vocabulary is not looked at.
/// \tparam View a `verify_view`. \tparam V a `Verifier` that accepts such drafts.
template <class View, class V, class Random>
struct verify_sequences {
  const View* views;  ///< [sequences]
  verdict* verdicts;  ///< [sequences] in: `path`; out: everything else
  V verifier;
  Random random;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;
  static constexpr int loads = team::loads_of<decltype(View::target)>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    verdict out;
    out.path = verdicts[index].path;
    verifier(team, views[index], random, out);
    team.sync();  // every rank has read `path`, which the next line writes again
    if (team.rank() == 0) { verdicts[index] = out; }
  }
};

}  // namespace kernel
}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/sequence.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/model/found_rows.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/verifier/verifier.hpp>

/// \file
/// A step is data: what varies from one to the next is in arrays. Rows of a pass stand one after
/// the other by slot, padding behind them.

namespace hunch {

/// What a step does with the sequence of a slot.
struct step_plan {
  bool takes_part = false;
  bool cancelled = false;
  bool decodes = false;     ///< the root is read, and what was drafted after it
  bool full = false;        ///< the target's cache had no room
  std::int32_t prefix = 0;  ///< prompt tokens that are read before the root
  std::int32_t first_row = 0;

  HUNCH_HOST_DEVICE bool verifies() const { return decodes && !full; }
};

/// What was decided about it. The host may put a shorter one in its place before the commit.
struct step_decision {
  std::int32_t emitted = 0;
  finish_reason finish = finish_reason::none;
  hunch::status status = hunch::status::ok;  ///< why, if `finish` is `error`
};

/// What the host learns of it besides its ring.
struct step_report {
  bool takes_part = false;
  bool verified = false;
  std::int32_t prefix = 0;
  draft_extent draft;
  std::int32_t drafted = 0;
  std::int32_t accepted = 0;
  step_decision decided;
};

/// Where a kept row of the pass goes in the cache of a slot: for engines whose caches lie in pages,
/// or are written in place.
struct cache_move {
  std::int32_t slot = no_slot;  ///< no_slot: padding
  std::int32_t row = 0;         ///< of the pass
  std::int32_t position = 0;    ///< absolute, in the sequence
};

/// The arrays of a step. A trivially copyable view; N is the drafter's number of nodes.
template <class Real, std::int32_t N>
struct step_arrays {
  inbox_view in;
  draft_trees<Real> trees;
  std::int32_t slots = 0;
  std::int32_t chunk = 0;         ///< prompt tokens of a sequence that a step reads
  std::int32_t chunks = 0;        ///< of all sequences
  std::int32_t draft_length = 0;  ///< draft at most so deep
  std::int32_t padded = 0;        ///< rows, and what is kept of them, are padded up to it; 0: not
  step_plan* plans = nullptr;     ///< [max_batch]
  draft_context* contexts = nullptr;   ///< [max_batch]
  verdict* verdicts = nullptr;         ///< [max_batch]
  step_decision* decisions = nullptr;  ///< [max_batch]
  draft_outcome* outcomes = nullptr;   ///< [max_batch]
  row_arrays rows;                     ///< the target's
  status* statuses = nullptr;          ///< of these, if some are not ok
  row_places<Real> logits;             ///< of these, found by the host
  law<Real>* laws = nullptr;           ///< [max_batch, N]
  std::uint64_t* told = nullptr;       ///< [max_batch, N] logits that other ranks hold, if some do
  std::uint64_t* ahead = nullptr;      ///< [max_batch, N] what a rule asks of nodes, likewise
  bool looks_ahead = false;            ///< whether this step has asked
  double* sums = nullptr;              ///< [max_batch, N, groups] of the laws, likewise
  std::int32_t groups = 0;
  double* scratch = nullptr;       ///< [max_batch, N]
  std::int32_t* paths = nullptr;   ///< [max_batch, N]
  kept_arrays kept;                ///< the target's
  cache_move* moves = nullptr;     ///< of the same rows; nullptr: nobody reads them
  std::int32_t* counts = nullptr;  ///< [3] rows, kept rows, released slots
  rings out;
  step_report* reports = nullptr;  ///< [max_batch] for the host; nullptr: no one
  token_log_probability* log_probabilities = nullptr;  ///< [max_batch, N, report_stride]
  std::int32_t report_stride = 0;
  statistics<N>* counters = nullptr;  ///< [max_batch]; passes are counted for the last slot

  HUNCH_HOST_DEVICE sequence& of(std::int32_t slot) const { return in.all[slot]; }
  /// [N] accepted nodes: where the verdict on a slot has its `path`, for who need not read that
  /// first.
  HUNCH_HOST_DEVICE std::int32_t* path(std::int32_t slot) const {
    return paths + static_cast<std::int64_t>(slot) * N;
  }

  /// Asks for what is known of a slot, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    team::ask_nearby_of_each(team, slot, 1, in.all, in.seen, in.ended, in.taken, out.counted, plans,
                             contexts, verdicts, decisions, outcomes, counters);
    team::ask_nearby_of_each(team, 0, N, path(slot));
    team::ask_nearby_of_each(team, 0, 3, counts);
    trees.ask_nearby(team, slot);
  }

  /// Rows of a slot in the target's pass.
  HUNCH_HOST_DEVICE std::int32_t rows_of(std::int32_t slot) const {
    const step_plan& plan = plans[slot];
    return plan.decodes ? plan.prefix + trees.count(slot) : plan.prefix;
  }
  HUNCH_HOST_DEVICE bool ends(std::int32_t slot) const {
    return plans[slot].takes_part && decisions[slot].finish != finish_reason::none;
  }
  HUNCH_HOST_DEVICE bool goes_on(std::int32_t slot) const {
    return plans[slot].takes_part && decisions[slot].finish == finish_reason::none;
  }
  /// Rows of a slot that enter the target's cache.
  HUNCH_HOST_DEVICE std::int32_t keeps(std::int32_t slot) const {
    return goes_on(slot) ? plans[slot].prefix + decisions[slot].emitted : 0;
  }

  /// Emitted token i of a slot.
  HUNCH_HOST_DEVICE token emitted(std::int32_t slot, std::int32_t i) const {
    const verdict& v = verdicts[slot];
    return i < v.accepted ? trees.tree(slot).tokens[path(slot)[i]] : v.next;
  }
};

}  // namespace hunch

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/detail/growing.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>

/// \file
/// What a draft model with a cache reads in a step, and what it keeps of it.

namespace hunch::drafter {

/// How far a model has read the text of a slot.
struct model_read {
  std::int32_t cached = 0;  ///< tokens in the model's cache
  bool full = false;        ///< its cache had no room: this sequence drafts no more
};

/// What was staged for a slot in this step: committed tokens, the root at last if it drafts, and
/// then nodes of its tree.
struct model_staged {
  bool drafts = false;
  bool full = false;
  std::int32_t known = 0;      ///< committed tokens that the model may read
  std::int32_t first_row = 0;  ///< in the last pass over committed tokens
  std::int32_t read = 0;       ///< committed tokens, at the ids 0 .. read - 1
  std::int32_t ids = 0;        ///< with the nodes
};

/// What a draft model's step is on, but for its trees. A trivially copyable view.
struct model_arrays {
  model_read* read = nullptr;      ///< [max_batch]
  model_staged* staged = nullptr;  ///< [max_batch]
  row_arrays rows;                 ///< of the next pass
  std::int32_t* counts = nullptr;  ///< [3] of these; then of kept rows, and of released slots
  status* statuses = nullptr;      ///< of the last pass
  std::int32_t chunk = 0;          ///< committed tokens of a sequence in one pass
  std::int32_t capacity = 0;       ///< of the next pass, padded up to it; 0: nobody pads
  bool keeps_up = false;           ///< reads what the target reads, whether it drafts or not
  bool rereads = false;            ///< see `rereads_accepted`
  bool shares_cache = false;       ///< see `shares_target_cache`

  HUNCH_HOST_DEVICE std::int32_t unread(std::int32_t slot) const {
    return staged[slot].known - read[slot].cached;
  }
};

/// What the bodies of a draft model's step share. A trivially copyable view.
template <class Growing>
struct model_step : model_arrays {
  Growing trees;

  /// The rows of a slot in the next pass.
  HUNCH_HOST_DEVICE team::slot_part pass_of(std::int32_t slot) const {
    return {.slot = slot, .slots = trees.slots, .capacity = capacity, .count = counts};
  }

  /// Asks for what is known of a slot, see `team::ask_nearby_of`.
  template <class T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    team::ask_nearby_of_each(team, slot, 1, this->read, this->staged);
    trees.ask_nearby(team, slot);
  }
};

/// What slot `slot` is to do in this step, before anything is staged. A sequence drafts if the
/// model may read up to its root.
template <class Step>
struct plan_drafts {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    step.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    const draft_context& c = step.trees.contexts[slot];
    step.trees.begin(slot);
    if (step.shares_cache) { step.read[slot] = {c.cached, false}; }
    const model_read read = step.read[slot];
    model_staged staged;
    // A model that depends on what the target made of a token reads after it.
    const bool after = step.rereads && c.cached + 1 < c.length;
    staged.known = after                           ? c.cached + 1
                   : step.keeps_up && c.length > 0 ? c.cached + c.prefix + 1
                                                   : c.length;
    staged.drafts =
        !read.full && c.max_depth > 0 && staged.known == c.length && step.trees.opens(slot);
    step.staged[slot] = staged;
  }
};

namespace detail {

/// Stages the first committed tokens of slot `slot` that the model has not read, count(slot) of
/// them. Returns their rows, on all ranks. Collective.
template <Team T, class Step, class Count>
HUNCH_HOST_DEVICE team::slot_entries stage_tokens(T& team, const Step& step, std::int32_t slot,
                                                  const Count& count) {
  const std::int32_t cached = step.read[slot].cached;
  const draft_context& c = step.trees.contexts[slot];
  const bool drafts = step.staged[slot].drafts;
  const team::slot_entries rows = team::list_by_slot(
      team, step.pass_of(slot), count,
      [&](std::int32_t at, std::int32_t id) {
        step.rows.set(at, {.slot = slot,
                           .id = id,
                           .parent = id == 0 ? end_of_cache : id - 1,
                           .position = cached + id,
                           .t = c.committed[cached + id],
                           .wanted = drafts && cached + id == c.length - 1});
      },
      [&](std::int32_t at) { step.rows.pad(at); });
  if (team.rank() == 0) {
    model_staged& staged = step.staged[slot];
    staged.first_row = rows.first;
    staged.read = staged.ids = rows.size;
  }
  return rows;
}

}  // namespace detail

/// Stages a chunk of slot `slot` if it drafts and has more than a chunk to read before.
template <class Step>
struct stage_missed {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    detail::stage_tokens(team, step, slot, [&](std::int32_t i) {
      const model_staged& staged = step.staged[i];
      const bool lags =
          staged.drafts && !step.shares_cache && !staged.full && step.unread(i) > step.chunk;
      return lags ? step.chunk : 0;
    });
  }
};

/// Keeps what `stage_missed` has staged of slot `slot`, once it is read.
template <class Step>
struct keep_missed {
  Step step;
  kept_arrays kept;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const std::int32_t slots = step.trees.slots;
    team::list_by_slot(
        team, {.slot = slot, .slots = slots, .capacity = 0, .count = step.counts + 1},
        [&](std::int32_t i) { return step.staged[i].read; },
        [&](std::int32_t at, std::int32_t id) { kept.set(at, {.slot = slot, .id = id}); },
        [](std::int32_t) {});
    if (team.rank() != 0) { return; }
    step.read[slot].cached += step.staged[slot].read;
    if (slot + 1 == slots) { step.counts[2] = 0; }
  }
};

/// Stages the committed tokens that the model has not read of slot `slot`, if it drafts all.
/// Without drafting, only whole chunks are worth a pass, or what is left where a draft is near, and
/// only if one is to be expected: of a prompt that the target has not read to its end either. What
/// nobody drafts from is never read; nor is the root, in front of the step that drafts from it.
template <class Step>
struct stage_committed {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const auto count = [&](std::int32_t i) {
      const model_staged& staged = step.staged[i];
      const std::int32_t left = step.unread(i);
      // In the target's cache nobody else reads anything: all that the target reads in this step.
      if (step.shares_cache) { return staged.drafts ? left : 0; }
      if (step.keeps_up) { return left; }
      const draft_context& c = step.trees.contexts[i];
      const std::int32_t before_root = staged.known < c.length ? left : left - 1;
      const bool in_pieces =
          !c.idle && c.cached + 1 < c.length && before_root >= (c.later ? 1 : step.chunk);
      const bool full = staged.full || step.read[i].full;
      const bool reads = !full && (staged.drafts || in_pieces);
      const std::int32_t wanted = staged.drafts ? left : before_root;
      return !reads ? 0 : wanted < step.chunk ? wanted : step.chunk;
    };
    const team::slot_entries rows = detail::stage_tokens(team, step, slot, count);
    if (team.rank() != 0 || rows.size == 0 || !step.staged[slot].drafts) { return; }
    const auto& of = step.trees.of;
    of.add_root(slot, rows.first + rows.size - 1);
    of.ids[of.in_tree(slot, 0)] = rows.size - 1;
  }
};

/// Takes back the rows of slot `slot` for which the model's cache had no room. Which rows fit does
/// not depend on what was drawn, so nothing is biased: the draft is only shorter. The first passes
/// have committed tokens of any sequence, the later ones the nodes that are drafted from.
template <class Step>
struct drop_full_rows {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    model_staged& staged = step.staged[slot];
    if (step.trees.depth == 0) {
      std::int32_t fitted = 0;
      while (fitted < staged.read && step.statuses[staged.first_row + fitted] == status::ok) {
        ++fitted;
      }
      staged.full = staged.full || fitted < staged.read;
      staged.read = fitted;
    }
    const auto of = step.trees.of;
    std::int32_t left = 0;
    for (std::int32_t f = 0; f < of.sizes[slot]; ++f) {
      const std::int32_t node = of.node(slot, f);
      const std::int32_t row = of.rows[of.in_level(slot, f)];
      if (step.statuses[row] != status::ok) {
        staged.full = true;
        of.ids[of.in_tree(slot, node)] = of.not_staged;
        continue;
      }
      of.nodes[of.in_level(slot, left)] = node;
      of.rows[of.in_level(slot, left)] = row;
      ++left;
    }
    of.sizes[slot] = left;
  }
};

/// Stages the nodes that slot `slot` drafts from next: the rows of the next pass.
template <class Step>
struct stage_frontier {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    step.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const auto& of = step.trees.of;
    const model_staged staged = step.staged[slot];
    const std::int32_t position = step.trees.contexts[slot].length - 1 + step.trees.depth;
    const drafted_tokens tree = step.trees.trees.tree(slot);
    const team::slot_entries rows = team::list_by_slot(
        team, step.pass_of(slot),
        [&](std::int32_t i) { return step.staged[i].full ? 0 : of.sizes[i]; },
        [&](std::int32_t at, std::int32_t f) {
          const std::int32_t node = of.node(slot, f);
          of.rows[of.in_level(slot, f)] = at;
          of.ids[of.in_tree(slot, node)] = staged.ids + f;
          step.rows.set(at, {.slot = slot,
                             .id = staged.ids + f,
                             .parent = of.ids[of.in_tree(slot, tree.parent[node])],
                             .position = position,
                             .t = tree.tokens[node],
                             .wanted = true});
        },
        [&](std::int32_t at) { step.rows.pad(at); });
    if (team.rank() != 0) { return; }
    if (staged.full) { of.sizes[slot] = 0; }  // nobody else reads it then
    step.staged[slot].ids = staged.ids + rows.size;
  }
};

/// Makes what was kept of slot `slot` final: the committed tokens that were read, and the accepted
/// nodes that were, unless they are read again.
template <class Step>
struct keep_read {
  Step step;
  kept_arrays kept;
  draft_outcomes outcomes;
  std::int32_t capacity = 0;  ///< of what is kept, padded up to it; 0: nobody pads

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    team::ask_nearby_of_each(team, slot, 1, outcomes.of);
    step.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const draft_outcome outcome = outcomes.of[slot];
    const model_staged staged = step.staged[slot];
    const std::int32_t read = staged.read;
    const auto& of = step.trees.of;
    const team::slot_entries rows = team::list_by_slot(
        team,
        {.slot = slot, .slots = outcomes.slots, .capacity = capacity, .count = step.counts + 1},
        [&](std::int32_t i) { return keeps(i); },
        [&](std::int32_t at, std::int32_t k) {
          const std::int32_t id = k < read ? k : of.ids[of.in_tree(slot, outcome.path[k - read])];
          kept.set(at, {.slot = slot, .id = id});
        },
        [&](std::int32_t at) { kept.pad(at); });
    const bool ended = list_released(team,
                                     {.slot = slot,
                                      .slots = outcomes.slots,
                                      .capacity = capacity > 0 ? outcomes.slots : 0,
                                      .count = step.counts + 2},
                                     kept, [&](std::int32_t i) { return ends(i); });
    if (team.rank() != 0) { return; }
    const model_read before = step.read[slot];
    step.trees.lengths.observe(slot, outcome);
    if (ended) {
      step.read[slot] = {};
    } else if (outcome.slot != no_slot) {
      step.read[slot] = {before.cached + rows.size, before.full || staged.full};
    }
  }

 private:
  HUNCH_HOST_DEVICE bool ends(std::int32_t slot) const {
    return outcomes.of[slot].slot != no_slot && outcomes.of[slot].finished;
  }

  HUNCH_HOST_DEVICE std::int32_t keeps(std::int32_t slot) const {
    const draft_outcome& outcome = outcomes.of[slot];
    if (outcome.slot == no_slot || outcome.finished) { return 0; }
    const std::int32_t read = step.staged[slot].read;
    std::int32_t nodes = 0;
    while (!step.rereads && read > 0 && nodes < outcome.kept &&
           step.trees.of.ids[step.trees.of.in_tree(slot, outcome.path[nodes])] >= 0) {
      ++nodes;
    }
    return read + nodes;
  }
};

/// Forgets slot `slot` between two steps: nothing is kept, and it is released.
template <class Step>
struct forget_read {
  Step step;
  kept_arrays kept;
  std::int32_t slot;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    if (team.rank() != 0) { return; }
    step.read[slot] = {};
    step.trees.lengths.release(slot);
    kept.released[0] = slot;
    step.counts[1] = 0;
    step.counts[2] = 1;
  }
};

}  // namespace hunch::drafter

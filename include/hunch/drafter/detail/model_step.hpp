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

/// What the bodies of a draft model's step share. A trivially copyable view.
template <class Growing>
struct model_step {
  Growing trees;
  model_read* read = nullptr;         ///< [max_batch]
  model_staged* staged = nullptr;     ///< [max_batch]
  row_arrays rows;                    ///< of the next pass
  std::int32_t* row_count = nullptr;  ///< [3] of these; then of kept rows, and of released slots
  const status* statuses = nullptr;   ///< of the last pass
  std::int32_t chunk = 0;             ///< committed tokens of a sequence in one pass
  std::int32_t capacity = 0;          ///< of the next pass, padded up to it; 0: nobody pads
  bool keeps_up = false;              ///< reads what the target reads, whether it drafts or not
  bool rereads = false;               ///< see `rereads_accepted`
  bool shares_cache = false;          ///< see `shares_target_cache`

  HUNCH_HOST_DEVICE std::int32_t unread(std::int32_t slot) const {
    return staged[slot].known - read[slot].cached;
  }

  /// Pads what is behind the first `size` rows. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void pad(T& team, std::int32_t size) const {
    const row_arrays of = rows;
    if (size >= capacity) { return; }
    team.for_each(capacity - size,
                  [=](std::int64_t i) { of.pad(size + static_cast<std::int32_t>(i)); });
  }
};

/// What slot `slot` is to do in this step, before anything is staged. A sequence drafts if the
/// model may read up to its root.
template <class Step>
struct plan_drafts {
  Step step;

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
/// them; the rows of the slots follow each other. Returns the first row on all ranks. Collective.
template <Team T, class Step, class Count>
HUNCH_HOST_DEVICE std::int32_t stage_tokens(T& team, const Step& step, std::int32_t slot,
                                            const Count& count) {
  const std::int32_t first =
      sum_before(team, slot, [=](std::int64_t i) { return count(static_cast<std::int32_t>(i)); });
  const std::int32_t size = count(slot);
  const std::int32_t cached = step.read[slot].cached;
  const draft_context c = step.trees.contexts[slot];
  const bool drafts = step.staged[slot].drafts;
  team.for_each(size, [=](std::int64_t i) {
    const auto id = static_cast<std::int32_t>(i);
    step.rows.set(first + id, {.slot = slot,
                               .id = id,
                               .parent = id == 0 ? end_of_cache : id - 1,
                               .position = cached + id,
                               .t = c.committed[cached + id],
                               .wanted = drafts && cached + id == c.length - 1});
  });
  if (slot + 1 == step.trees.slots) { step.pad(team, first + size); }
  if (team.rank() == 0) {
    step.staged[slot].first_row = first;
    step.staged[slot].read = size;
    step.staged[slot].ids = size;
    if (slot + 1 == step.trees.slots) { *step.row_count = first + size; }
  }
  return first;
}

}  // namespace detail

/// Stages a chunk of slot `slot` if it drafts and has more than a chunk to read before.
template <class Step>
struct stage_missed {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const Step s = step;
    detail::stage_tokens(team, s, slot, [=](std::int32_t i) {
      const bool lags =
          s.staged[i].drafts && !s.shares_cache && !s.staged[i].full && s.unread(i) > s.chunk;
      return lags ? s.chunk : 0;
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
    const Step s = step;
    const kept_arrays to = kept;
    const std::int32_t first =
        detail::sum_before(team, slot, [=](std::int64_t i) { return s.staged[i].read; });
    const std::int32_t size = s.staged[slot].read;
    team.for_each(size, [=](std::int64_t i) {
      const auto id = static_cast<std::int32_t>(i);
      to.set(first + id, {.slot = slot, .id = id});
    });
    if (team.rank() != 0) { return; }
    s.read[slot].cached += size;
    if (slot + 1 < s.trees.slots) { return; }
    s.row_count[1] = first + size;
    s.row_count[2] = 0;
  }
};

/// Stages the committed tokens that the model has not read of slot `slot`, if it drafts all.
/// Without drafting, only whole chunks are worth a pass, and only if a draft is to be expected: of
/// a prompt that the target has not read to its end either. What nobody drafts from is never read;
/// nor is the root, in front of the step that drafts from it.
template <class Step>
struct stage_committed {
  Step step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const Step s = step;
    const auto count = [=](std::int32_t i) {
      const draft_context& c = s.trees.contexts[i];
      const std::int32_t left = s.unread(i);
      const bool full = s.staged[i].full || s.read[i].full;
      const bool in_pieces = !c.idle && c.cached + 1 < c.length &&
                             (s.staged[i].known < c.length ? left : left - 1) >= s.chunk;
      // In the target's cache nobody else reads anything: all that the target reads in this step.
      if (s.shares_cache) { return s.staged[i].drafts ? left : 0; }
      if (s.keeps_up) { return left; }
      const bool reads = !full && (s.staged[i].drafts || in_pieces);
      return !reads ? 0 : left < s.chunk ? left : s.chunk;
    };
    const std::int32_t first = detail::stage_tokens(team, s, slot, count);
    const std::int32_t size = count(slot);
    if (team.rank() != 0 || size == 0 || !s.staged[slot].drafts) { return; }
    s.trees.of.add_root(slot, first + size - 1);
    s.trees.of.ids[s.trees.of.in_tree(slot, 0)] = size - 1;
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
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const Step s = step;
    const auto of = s.trees.of;
    const auto size_of = [=](std::int32_t i) { return s.staged[i].full ? 0 : of.sizes[i]; };
    const std::int32_t first = detail::sum_before(
        team, slot, [=](std::int64_t i) { return size_of(static_cast<std::int32_t>(i)); });
    const std::int32_t size = size_of(slot);
    const std::int32_t ids = s.staged[slot].ids;
    const std::int32_t position = s.trees.contexts[slot].length - 1 + s.trees.depth;
    const drafted_tokens tree = s.trees.trees.tree(slot);
    team.for_each(size, [=](std::int64_t i) {
      const auto f = static_cast<std::int32_t>(i);
      const std::int32_t node = of.node(slot, f);
      of.rows[of.in_level(slot, f)] = first + f;
      of.ids[of.in_tree(slot, node)] = ids + f;
      s.rows.set(first + f, {.slot = slot,
                             .id = ids + f,
                             .parent = of.ids[of.in_tree(slot, tree.parent[node])],
                             .position = position,
                             .t = tree.tokens[node],
                             .wanted = true});
    });
    if (slot + 1 == s.trees.slots) { s.pad(team, first + size); }
    if (team.rank() != 0) { return; }
    s.staged[slot].ids = ids + size;
    if (s.staged[slot].full) { of.sizes[slot] = 0; }  // nobody else reads it then
    if (slot + 1 == s.trees.slots) { *s.row_count = first + size; }
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
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const keep_read self = *this;
    const std::int32_t first = detail::sum_before(
        team, slot, [=](std::int64_t i) { return self.keeps(static_cast<std::int32_t>(i)); });
    const std::int32_t released = detail::sum_before(team, slot, [=](std::int64_t i) {
      return self.ends(static_cast<std::int32_t>(i)) ? 1 : 0;
    });
    const draft_outcome outcome = outcomes.of[slot];
    const std::int32_t size = keeps(slot);
    const std::int32_t read = step.staged[slot].read;
    const auto of = step.trees.of;
    team.for_each(size, [=](std::int64_t i) {
      const auto k = static_cast<std::int32_t>(i);
      const std::int32_t id = k < read ? k : of.ids[of.in_tree(slot, outcome.path[k - read])];
      self.kept.set(first + k, {.slot = slot, .id = id});
    });
    if (slot + 1 == outcomes.slots && capacity > 0) {
      const std::int32_t end = first + size;
      const std::int32_t ended = released + (ends(slot) ? 1 : 0);
      team.for_each(capacity - end,
                    [=](std::int64_t i) { self.kept.pad(end + static_cast<std::int32_t>(i)); });
      team.for_each(outcomes.slots - ended,
                    [=](std::int64_t i) { self.kept.released[ended + i] = no_slot; });
    }
    if (team.rank() != 0) { return; }
    step.trees.lengths.observe(slot, outcome);
    if (ends(slot)) {
      kept.released[released] = slot;
      step.read[slot] = {};
    } else if (outcome.slot != no_slot) {
      step.read[slot].cached += size;
      step.read[slot].full = step.read[slot].full || step.staged[slot].full;
    }
    if (slot + 1 < outcomes.slots) { return; }
    step.row_count[1] = first + size;
    step.row_count[2] = released + (ends(slot) ? 1 : 0);
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
    step.row_count[1] = 0;
    step.row_count[2] = 1;
  }
};

}  // namespace hunch::drafter

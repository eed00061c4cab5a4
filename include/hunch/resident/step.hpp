// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/decoder/statistics.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/resident/ring.hpp>
#include <hunch/resident/sequences.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// The bodies of a resident step after the draft. Nothing here is of variable size: each slot has
/// rows, laws and kept rows of its own, at fixed places, and a slot without a sequence pads them.

namespace hunch::resident {

/// What a drafter's model has staged for a slot in this step.
struct draft_progress {
  std::int32_t read = 0;   ///< committed tokens, staged ids 0 .. read - 1
  std::int32_t nodes = 0;  ///< drafted nodes, node j at id read - 1 + j
};

/// What a drafter's model keeps of a step; without a model all is null.
struct draft_keeping {
  const draft_progress* progress = nullptr;  ///< [max_batch]
  kept_arrays kept;                          ///< [max_batch, stride], [max_batch]
  std::int32_t stride = 0;
  bool rereads = false;  ///< whether drafted rows are never kept, see `rereads_accepted`
};

/// The arrays of a step. A trivially copyable view; N is the drafter's number of nodes.
template <class Real, std::int32_t N>
struct step_arrays {
  sequences all;
  draft_trees<Real> trees;
  row_arrays rows;               ///< [max_batch, N] the target's
  const row_view<Real>* logits;  ///< [max_batch, N] after these rows
  law<Real>* laws;               ///< [max_batch, N]
  double* scratch;               ///< [max_batch, N]
  std::int32_t* paths;           ///< [max_batch, N]
  kept_arrays kept;              ///< [max_batch, N], [max_batch]: the target's
  draft_keeping draft;
  rings out;
  statistics<N>* counters;  ///< [max_batch]
};

/// The target's rows of slot `slot`, made of the arrays when they are read.
template <class Real, std::int32_t N>
struct slot_rows {
  const step_arrays<Real, N>* of = nullptr;
  std::int32_t slot = 0;

  HUNCH_HOST_DEVICE target_row<Real> operator[](std::int32_t node) const {
    const sequence& s = of->all.of[slot];
    const drafted_tokens tree = of->trees.tree(slot);
    return {of->logits[slot * N + node],
            s.parameters,
            {.list = nullptr,
             .committed = of->all.text(slot),
             .length = s.length,
             .counts = of->all.counts(slot),
             .tree_tokens = tree.tokens,
             .tree_parent = tree.parent,
             .node = node}};
  }
};

template <class Real, class S, std::int32_t N>
using slot_laws = sampled_laws<Real, S, slot_rows<Real, N>>;

/// The rows of the target's pass for slot `slot`: its tree, then padding.
template <class Real, class S, std::int32_t N>
struct place_rows {
  step_arrays<Real, N> of;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const sequence& s = of.all.of[slot];
    const draft_tree<Real> tree = of.trees.tree(slot);
    const std::int32_t nodes = s.runs() ? tree.count : 0;
    team.for_each(N, [&](std::int64_t i) {
      const auto node = static_cast<std::int32_t>(i);
      const std::int32_t at = slot * N + node;
      if (node >= nodes) { return of.rows.pad(at); }
      of.rows.set(at, {.slot = slot,
                       .id = node,
                       .parent = node == 0 ? end_of_cache : tree.parent[node],
                       .position = s.length - 1 + tree.depth(node),
                       .t = tree.tokens[node],
                       .wanted = true});
      of.laws[at] = slot_laws<Real, S, N>::unmade;
    });
  }
};

/// Makes the law of row `index` of the step before the verifier reads it: where there are teams
/// to spare, rows are read side by side.
template <class Real, class S, std::int32_t N>
struct make_laws {
  step_arrays<Real, N> of;
  S sampler;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (of.rows.slot[index] == no_slot) { return; }
    const std::int32_t slot = index / N;
    slot_laws<Real, S, N>{{&of, slot}, of.laws + slot * N, sampler}(team, index % N);
  }
};

/// Verifies the draft of slot `slot` and ends its step: the run is cut where plain decoding would
/// have ended, what is kept goes to the models, tokens go to the text and to the slot's ring.
template <class Real, class S, class V, class Random, std::int32_t N>
struct end_step {
  step_arrays<Real, N> of;
  child_law children;
  S sampler;
  V verifier;
  Random random;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const std::int32_t first = slot * N;
    const sequence& s = of.all.of[slot];
    verdict out;
    out.path = of.paths + first;
    if (s.runs()) {
      using laws_type = slot_laws<Real, S, N>;
      const draft_tree<Real> tree = of.trees.tree(slot);
      verifier(team,
               verify_view<laws_type, stored_drafts<law<Real>>, chain_tokens>{
                   .tree = {static_cast<const drafted_tokens&>(tree)},
                   .children = children,
                   .target = laws_type{{&of, slot}, of.laws + first, sampler},
                   .drafts = {tree.laws, tree.lists},
                   .seed = s.seed,
                   .length = static_cast<std::uint32_t>(s.length),
                   .scratch = of.scratch + first},
               random, out);
    }
    team.sync();
    if (team.rank() == 0) { end(slot, out); }
  }

 private:
  HUNCH_HOST_DEVICE static token emitted_token(const drafted_tokens& tree, const verdict& v,
                                               std::int32_t i) {
    return i < v.accepted ? tree.tokens[v.path[i]] : v.next;
  }

  /// By one rank.
  HUNCH_HOST_DEVICE void end(std::int32_t slot, const verdict& v) const {
    sequence& s = of.all.of[slot];
    for (std::int32_t i = 0; i < N; ++i) { of.kept.pad(slot * N + i); }
    for (std::int32_t i = 0; i < of.draft.stride; ++i) {
      of.draft.kept.pad(slot * of.draft.stride + i);
    }
    release(slot, false);
    if (!s.runs()) { return; }

    const drafted_tokens tree = of.trees.tree(slot);
    const std::int32_t decided = v.accepted + (v.status == status::ok ? 1 : 0);
    std::int32_t emitted = 0;
    finish_reason finish = finish_reason::none;
    while (finish == finish_reason::none && emitted < decided) {
      const token t = emitted_token(tree, v, emitted);
      finish = s.ends_with(t, ++emitted);
    }
    // An error after the end of the text is none: plain decoding does not look there.
    const bool failed = finish == finish_reason::none && v.status != status::ok;
    if (failed) { finish = finish_reason::error; }
    publish(slot, tree, v, emitted, finish);
    of.counters[slot].count(
        tree, of.draft.progress == nullptr ? nullptr : of.trees.tree(slot).lists, v, emitted);
    if (finish != finish_reason::none) {
      release(slot, true);
      s.id = 0;
      return;
    }
    keep(slot, v, emitted - 1);
    for (std::int32_t i = 0; i < emitted; ++i) { of.all.append(slot, emitted_token(tree, v, i)); }
  }

  HUNCH_HOST_DEVICE void release(std::int32_t slot, bool ends) const {
    of.kept.released[slot] = ends ? slot : no_slot;
    if (of.draft.progress != nullptr) { of.draft.kept.released[slot] = ends ? slot : no_slot; }
  }

  /// The root and the first `kept` accepted nodes enter the target's cache; the draft model keeps
  /// what it has read of them.
  HUNCH_HOST_DEVICE void keep(std::int32_t slot, const verdict& v, std::int32_t kept) const {
    of.kept.set(slot * N, {.slot = slot, .id = 0});
    for (std::int32_t i = 0; i < kept; ++i) {
      of.kept.set(slot * N + 1 + i, {.slot = slot, .id = v.path[i]});
    }
    if (of.draft.progress == nullptr) { return; }
    const draft_progress staged = of.draft.progress[slot];
    std::int32_t at = slot * of.draft.stride;
    for (std::int32_t i = 0; i < staged.read; ++i) {
      of.draft.kept.set(at++, {.slot = slot, .id = i});
    }
    std::int32_t nodes = 0;
    while (!of.draft.rereads && nodes < kept && v.path[nodes] <= staged.nodes) {
      of.draft.kept.set(at++, {.slot = slot, .id = staged.read - 1 + v.path[nodes++]});
    }
    of.all.of[slot].draft_cached += staged.read + nodes;
  }

  /// An error comes after what was emitted before it, as an entry of its own.
  HUNCH_HOST_DEVICE void publish(std::int32_t slot, const drafted_tokens& tree, const verdict& v,
                                 std::int32_t emitted, finish_reason finish) const {
    const request_id id = of.all.of[slot].id;
    std::int64_t n = of.out.counted[slot];
    for (std::int32_t i = 0; i < emitted; ++i) {
      const bool last = i + 1 == emitted && finish != finish_reason::error;
      of.out.at(slot, n++) = {id, emitted_token(tree, v, i),
                              i < v.accepted ? origin::accepted : v.next_origin,
                              last ? finish : finish_reason::none, status::ok};
    }
    if (finish == finish_reason::error) {
      of.out.at(slot, n++) = {id, no_token, origin::sampled, finish, v.status};
    }
    of.out.counted[slot] = n;
    resident::store_release(of.out.written + slot, n);
  }
};

/// Decides whether the loop takes another step.
struct decide_repeat {
  sequences all;
  std::int32_t slots;  ///< that may run
  rings out;
  signals* shared;
  std::int64_t* steps;  ///< since construction
  std::int64_t* steps_left;
  std::int32_t* again;           ///< out
  std::int32_t max_new_entries;  ///< entries that a step may write to a ring

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    // 1: somebody runs; 2: somebody runs and has no room for what a step may emit, or the host asks
    // for an end. All looks at the host's memory at the same time.
    const std::int32_t seen = team.reduce(
        slots + 1, std::int32_t(0),
        [&](std::int64_t i) {
          const auto slot = static_cast<std::int32_t>(i);
          if (slot == slots) { return load_acquire(&shared->stop) == 0 ? 0 : 2; }
          if (!all.of[slot].runs()) { return 0; }
          return out.has_room(slot, out.counted[slot], max_new_entries) ? 1 : 2;
        },
        [](std::int32_t a, std::int32_t b) { return a > b ? a : b; });
    if (team.rank() != 0) { return; }
    const std::int64_t left = --*steps_left;
    resident::store_release(&shared->steps, ++*steps);
    *again = seen == 1 && left > 0 ? 1 : 0;
  }
};

}  // namespace hunch::resident

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/decoder/statistics.hpp>
#include <hunch/draft/draft_tree.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/model/staged_rows.hpp>
#include <hunch/resident/ring.hpp>
#include <hunch/resident/sequences.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// The bodies of a resident step but those of its drafter: a step is data, and what varies from one
/// to the next is in arrays. Rows of a pass stand one after the other by slot, padding behind them.

namespace hunch::resident {

/// What a step does with the sequence of a slot.
struct planned {
  bool decodes = false;     ///< the root is read, and what was drafted after it
  std::int32_t prefix = 0;  ///< prompt tokens that are read before the root
  std::int32_t first_row = 0;
  std::int32_t nodes = 0;  ///< of the tree, that are evaluated

  HUNCH_HOST_DEVICE bool takes_part() const { return decodes || prefix > 0; }
};

/// The arrays of a step. A trivially copyable view; N is the drafter's number of nodes.
template <class Real, std::int32_t N>
struct step_arrays {
  sequences all;
  draft_trees<Real> trees;
  std::int32_t slots = 0;
  std::int32_t chunk = 0;                  ///< prompt tokens of all sequences that a step reads
  std::int32_t draft_length = 0;           ///< draft at most so deep
  planned* plans = nullptr;                ///< [max_batch]
  draft_context* contexts = nullptr;       ///< [max_batch]
  draft_outcome* outcomes = nullptr;       ///< [max_batch]
  row_arrays rows;                         ///< [max_batch * N + chunk] the target's
  const row_view<Real>* logits = nullptr;  ///< after these rows
  law<Real>* laws = nullptr;               ///< [max_batch, N]
  double* scratch = nullptr;               ///< [max_batch, N]
  std::int32_t* paths = nullptr;           ///< [max_batch, N]
  kept_arrays kept;                        ///< [max_batch * N + chunk], [max_batch]: the target's
  std::int32_t* counts = nullptr;          ///< [3] rows, kept rows, released slots
  rings out;
  statistics<N>* counters = nullptr;  ///< [max_batch]

  /// Of the rows, and of what is kept of them.
  HUNCH_HOST_DEVICE std::int32_t capacity() const { return slots * N + chunk; }

  /// The part of a tree that is evaluated.
  HUNCH_HOST_DEVICE draft_tree<Real> tree(std::int32_t slot) const {
    draft_tree<Real> of = trees.tree(slot);
    of.count = plans[slot].nodes;
    return of;
  }
};

/// Begins the step of slot `slot`: a piece of its prompt, or all that is left of it and a root to
/// draft from. Prompts are read in the order of the slots, `chunk` tokens of all in a step.
template <class Real, std::int32_t N>
struct begin_step {
  step_arrays<Real, N> of;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const step_arrays<Real, N> step = of;
    const auto unread = [=](std::int32_t i) {
      const sequence& s = step.all.of[i];
      const std::int32_t left = s.runs() ? s.length - 1 - s.cached : 0;
      return left < step.chunk ? left : step.chunk;
    };
    const std::int32_t before = team.reduce(
        slot, std::int32_t(0), [=](std::int64_t i) { return unread(static_cast<std::int32_t>(i)); },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    if (team.rank() != 0) { return; }
    const sequence& s = of.all.of[slot];
    planned plan;
    of.contexts[slot] = {};
    of.trees.count(slot) = 0;
    if (s.runs()) {
      const std::int32_t room = before < of.chunk ? of.chunk - before : 0;
      const std::int32_t left = s.length - 1 - s.cached;
      plan.prefix = left < room ? left : room;
      plan.decodes = plan.prefix == left;
      // The last token of a text is never drafted.
      const std::int32_t most =
          s.remaining - 1 < of.draft_length ? s.remaining - 1 : of.draft_length;
      of.contexts[slot] = {.committed = of.all.text(slot),
                           .length = s.length,
                           .max_depth = plan.decodes ? most : 0,
                           .seed = s.seed,
                           .parameters = s.parameters,
                           .counts = of.all.counts(slot),
                           .grammar = nullptr,
                           .cached = s.cached,
                           .prefix = plan.prefix,
                           .idle = false};
      of.trees.plant(slot, of.all.text(slot)[s.length - 1]);
    }
    of.plans[slot] = plan;
  }
};

/// The rows of the target's pass for slot `slot`: unread tokens of its prompt, then its tree, up to
/// the first node that is no token. The last slot pads what is behind.
template <class Real, class S, std::int32_t N>
struct place_rows {
  step_arrays<Real, N> of;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const place_rows self = *this;
    const std::int32_t first = team.reduce(
        slot, std::int32_t(0),
        [=](std::int64_t i) {
          const auto other = static_cast<std::int32_t>(i);
          return self.of.plans[other].prefix + self.nodes(other);
        },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    const std::int32_t prefix = of.plans[slot].prefix;
    const std::int32_t count = nodes(slot);
    const std::int32_t end = first + prefix + count;
    const sequence& s = of.all.of[slot];
    const std::int32_t cached = s.cached;
    const token* const text = of.all.text(slot);
    const drafted_tokens tree = of.trees.tree(slot);
    team.for_each(prefix, [=](std::int64_t i) {
      const auto id = static_cast<std::int32_t>(i);
      self.of.rows.set(first + id, {.slot = slot,
                                    .id = id,
                                    .parent = id == 0 ? end_of_cache : id - 1,
                                    .position = cached + id,
                                    .t = text[cached + id],
                                    .wanted = false});
    });
    team.for_each(count, [=](std::int64_t i) {
      const auto node = static_cast<std::int32_t>(i);
      const std::int32_t above = node == 0 ? prefix - 1 : prefix + tree.parent[node];
      self.of.rows.set(first + prefix + node, {.slot = slot,
                                               .id = prefix + node,
                                               .parent = above < 0 ? end_of_cache : above,
                                               .position = cached + prefix + tree.depth(node),
                                               .t = tree.tokens[node],
                                               .wanted = true});
      self.of.laws[slot * N + node] = sampled_laws<Real, S>::unmade;
    });
    if (slot + 1 == of.slots) {
      team.for_each(of.capacity() - end,
                    [=](std::int64_t i) { self.of.rows.pad(end + static_cast<std::int32_t>(i)); });
    }
    if (team.rank() != 0) { return; }
    of.plans[slot].first_row = first;
    of.plans[slot].nodes = count;
    if (slot + 1 == of.slots) { of.counts[0] = end; }
  }

 private:
  /// Whoever drew what is no token broke the law that it names, and nothing corrects that: it is an
  /// error if the text gets there.
  HUNCH_HOST_DEVICE std::int32_t nodes(std::int32_t slot) const {
    if (!of.plans[slot].decodes) { return 0; }
    const drafted_tokens tree = of.trees.tree(slot);
    std::int32_t node = 1;
    while (node < tree.count && tree.tokens[node] >= 0 &&
           tree.tokens[node] < of.all.capacity.vocab_size) {
      ++node;
    }
    return node;
  }
};

/// The target's rows of slot `slot`, made of the arrays when they are read.
template <class Real, std::int32_t N>
struct slot_rows {
  const step_arrays<Real, N>* of = nullptr;
  std::int32_t slot = 0;

  HUNCH_HOST_DEVICE target_row<Real> operator[](std::int32_t node) const {
    const planned& plan = of->plans[slot];
    const draft_context& c = of->contexts[slot];
    return {of->logits[plan.first_row + plan.prefix + node], c.parameters,
            of->trees.history(slot, c, node, nullptr)};
  }
};

template <class Real, class S, std::int32_t N>
using slot_laws = sampled_laws<Real, S, slot_rows<Real, N>>;

/// Makes the law of node `index` % N of slot `index` / N before the verifier reads it: where there
/// are teams to spare, rows are read side by side.
template <class Real, class S, std::int32_t N>
struct make_laws {
  step_arrays<Real, N> of;
  S sampler;
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = index / N;
    if (index % N >= of.plans[slot].nodes) { return; }
    const target_row<Real> row = slot_rows<Real, N>{&of, slot}[index % N];
    const law<Real> l = sampler(team, row.logits, row.parameters, row.history);
    if (team.rank() == 0) { of.laws[index] = l; }
  }
};

/// Verifies the draft of slot `slot` and ends its step: the run is cut where plain decoding would
/// have ended, tokens go to the text and to the slot's ring, and what became of the draft is
/// written for who keeps something.
/// \tparam View what the verifier is given, a `verify_view` over `slot_laws`.
template <class View, class Real, class S, class V, class Random, std::int32_t N>
struct end_step {
  step_arrays<Real, N> of;
  child_law children;
  bool has_lists;  ///< whether the drafter has shortlists
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
    if (of.plans[slot].decodes) {
      const draft_tree<Real> tree = of.tree(slot);
      verifier(team,
               View{.tree = {static_cast<const drafted_tokens&>(tree)},
                    .children = children,
                    .target = slot_laws<Real, S, N>{{&of, slot}, of.laws + first, sampler},
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
    const planned plan = of.plans[slot];
    of.outcomes[slot] = {};
    if (!plan.takes_part()) { return; }
    of.outcomes[slot] = {.slot = slot,
                         .first_row = plan.first_row,
                         .prefix = plan.prefix,
                         .path = nullptr,
                         .kept = 0,
                         .finished = false};
    if (!plan.decodes) {
      s.cached += plan.prefix;
      return;
    }
    const drafted_tokens tree = of.tree(slot);
    const std::int32_t last = v.accepted > 0 ? v.path[v.accepted - 1] : 0;
    const bool invalid = tree.count < of.trees.count(slot) && tree.parent[tree.count] == last;
    const status why = v.status == status::ok && invalid ? status::invalid_token : v.status;
    const std::int32_t decided = v.accepted + (why == status::ok ? 1 : 0);
    std::int32_t emitted = 0;
    finish_reason finish = finish_reason::none;
    while (finish == finish_reason::none && emitted < decided) {
      const token t = emitted_token(tree, v, emitted);
      finish = s.ends_with(t, ++emitted);
    }
    // An error after the end of the text is none: plain decoding does not look there.
    if (finish == finish_reason::none && why != status::ok) { finish = finish_reason::error; }
    publish(slot, tree, v, emitted, finish, why);
    of.counters[slot].count(tree, has_lists ? of.trees.tree(slot).lists : nullptr, v, emitted);
    of.outcomes[slot].path = v.path;
    of.outcomes[slot].kept = emitted > 1 ? emitted - 1 : 0;
    of.outcomes[slot].finished = finish != finish_reason::none;
    if (of.outcomes[slot].finished) {
      s.id = 0;
      return;
    }
    for (std::int32_t i = 0; i < emitted; ++i) { of.all.append(slot, emitted_token(tree, v, i)); }
    s.cached += plan.prefix + emitted;
  }

  /// An error comes after what was emitted before it, as an entry of its own.
  HUNCH_HOST_DEVICE void publish(std::int32_t slot, const drafted_tokens& tree, const verdict& v,
                                 std::int32_t emitted, finish_reason finish, status why) const {
    const request_id id = of.all.of[slot].id;
    std::int64_t n = of.out.counted[slot];
    for (std::int32_t i = 0; i < emitted; ++i) {
      const bool last = i + 1 == emitted && finish != finish_reason::error;
      of.out.at(slot, n++) = {id, emitted_token(tree, v, i),
                              i < v.accepted ? origin::accepted : v.next_origin,
                              last ? finish : finish_reason::none, status::ok};
    }
    if (finish == finish_reason::error) {
      of.out.at(slot, n++) = {id, no_token, origin::sampled, finish, why};
    }
    of.out.counted[slot] = n;
    resident::store_release(of.out.written + slot, n);
  }
};

/// Says what enters the target's cache of slot `slot`, one row after the other by slot: what was
/// read of its prompt, the root, and the accepted nodes that stay in the text. The last slot pads
/// what is behind.
template <class Real, std::int32_t N>
struct keep_rows {
  step_arrays<Real, N> of;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const keep_rows self = *this;
    const auto sum = [](std::int32_t a, std::int32_t b) { return a + b; };
    const std::int32_t first = team.reduce(
        slot, std::int32_t(0),
        [=](std::int64_t i) { return self.keeps(static_cast<std::int32_t>(i)); }, sum);
    const std::int32_t released = team.reduce(
        slot, std::int32_t(0), [=](std::int64_t i) { return self.of.outcomes[i].finished ? 1 : 0; },
        sum);
    const draft_outcome outcome = of.outcomes[slot];
    const std::int32_t size = keeps(slot);
    team.for_each(size, [=](std::int64_t i) {
      const auto k = static_cast<std::int32_t>(i);
      const std::int32_t after = k - outcome.prefix;
      const std::int32_t id = after <= 0 ? k : outcome.prefix + outcome.path[after - 1];
      self.of.kept.set(first + k, {.slot = slot, .id = id});
    });
    if (team.rank() == 0 && outcome.finished) { of.kept.released[released] = slot; }
    if (slot + 1 < of.slots) { return; }
    const std::int32_t end = first + size;
    const std::int32_t ended = released + (outcome.finished ? 1 : 0);
    team.for_each(of.capacity() - end,
                  [=](std::int64_t i) { self.of.kept.pad(end + static_cast<std::int32_t>(i)); });
    team.for_each(of.slots - ended,
                  [=](std::int64_t i) { self.of.kept.released[ended + i] = no_slot; });
    if (team.rank() == 0) {
      of.counts[1] = end;
      of.counts[2] = ended;
    }
  }

 private:
  HUNCH_HOST_DEVICE std::int32_t keeps(std::int32_t slot) const {
    const draft_outcome& outcome = of.outcomes[slot];
    if (outcome.slot == no_slot || outcome.finished) { return 0; }
    return outcome.prefix + (outcome.path == nullptr ? 0 : 1 + outcome.kept);
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/decoder/detail/step_bodies.hpp>
#include <hunch/decoder/inbox.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/sequence.hpp>
#include <hunch/decoder/statistics.hpp>
#include <hunch/diffusion/canvas/running_canvas.hpp>
#include <hunch/diffusion/canvas/unmasking.hpp>
#include <hunch/diffusion/drafter/choose_unmaskings.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/detail/draft_sets.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/verifier/verifier.hpp>
#include <hunch/drafter/drafter.hpp>
#include <hunch/drafter/length_slots.hpp>
#include <hunch/length/length.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>

/// \file
/// The bodies of a round but those of its passes: a round is data, as a step is, and what varies
/// from one to the next is in arrays.

namespace hunch::diffusion {

/// What a round does with the canvas of a slot.
struct round_plan {
  bool takes_part = false;
  bool cancelled = false;
  bool drafts = false;       ///< one more is wanted
  bool asked = false;        ///< the first one was
  std::int32_t chain = 0;    ///< drafts, one after the other
  std::int32_t deepest = 0;  ///< drafts on one canvas at most
  length_evidence evidence;  ///< of those that there are
};

/// What bodies know of a composition.
template <std::int32_t N, bool ByModel, bool Observe, bool CachesBlocks>
struct round_parts {
  static constexpr std::int32_t max_drafts = N;
  static constexpr bool drafts_by_model = ByModel;
  static constexpr bool drafts_observe = Observe;
  static constexpr bool caches_blocks = CachesBlocks;
};

/// What a round is on, but for its length policy. A trivially copyable view.
/// \tparam Parts a `round_parts`. \tparam Drafting arrays of a draft model's passes.
template <class Parts, class Digests, class Drafting>
struct round_data {
  static constexpr std::int32_t max_drafts = Parts::max_drafts;
  static constexpr bool drafts_by_model = Parts::drafts_by_model;
  static constexpr bool drafts_observe = Parts::drafts_observe;
  static constexpr bool caches_blocks = Parts::caches_blocks;

  inbox_view in;
  std::int32_t slots = 0;         ///< that the round goes over
  std::int32_t draft_length = 0;  ///< canvases with drafts of a request at most
  std::int32_t padded = 0;        ///< kept canvases are padded up to it; 0: not
  token mask_token = no_token;
  double spread = 0.0;
  std::int32_t* block_lengths = nullptr;         ///< [max_batch] by the host, with a request
  running_canvas* canvases = nullptr;            ///< [max_batch]
  round_plan* plans = nullptr;                   ///< [max_batch]
  planned_draft* planned = nullptr;              ///< [max_batch, max_drafts] of this round
  planned_draft* next = nullptr;                 ///< [max_batch, max_drafts] of the one after it
  unmasking* drafts = nullptr;                   ///< [max_batch, draft_sets::most] the chain first
  std::int32_t* proposed = nullptr;              ///< [max_batch] different drafts
  std::uint64_t* sets = nullptr;                 ///< [max_batch, max_drafts + 1]
  draft_sets::reached* reached = nullptr;        ///< [max_batch, draft_sets::room(max_drafts)]
  draft_sets::next_draft* considered = nullptr;  ///< [max_batch, draft_sets::looked_at]
  unmasking* accepted = nullptr;                 ///< [max_batch, max_drafts]
  unmask_verdict* verdicts = nullptr;            ///< [max_batch]
  pass_arrays<Digests> pass;                     ///< the target's
  Drafting drafting;
  std::int32_t* kept = nullptr;        ///< [max_batch] see `decided_canvases`
  std::int32_t* kept_count = nullptr;  ///< [1]
  rings out;
  statistics<max_drafts + 1>* counters = nullptr;  ///< [max_batch] passes are for the last slot

  static HUNCH_HOST_DEVICE std::int64_t at(std::int32_t slot, std::int32_t of_each) {
    return static_cast<std::int64_t>(slot) * of_each;
  }
  HUNCH_HOST_DEVICE sequence& of(std::int32_t slot) const { return in.all[slot]; }
  HUNCH_HOST_DEVICE unmasking* drafts_of(std::int32_t slot) const {
    return drafts + at(slot, draft_sets::most);
  }
  HUNCH_HOST_DEVICE bool runs(std::int32_t slot) const {
    return plans[slot].takes_part && !plans[slot].cancelled;
  }
  /// The canvas of a slot that all of its accepted drafts are on.
  HUNCH_HOST_DEVICE std::int32_t kept_canvas(std::int32_t slot) const {
    return pass.of[slot].first + verdicts[slot].canvas;
  }

  /// What may be unmasked in a slot after the first `depth` drafts of its chain.
  HUNCH_HOST_DEVICE draft_list known_after(std::int32_t slot, std::int32_t depth) const {
    if constexpr (drafts_by_model) {
      return {drafting.list(depth, slot), drafting.capacity};
    } else {
      return {planned + at(slot, max_drafts), canvases[slot].planned};
    }
  }
};

/// The arrays of a round. A trivially copyable view.
/// \tparam L the length policy.
template <class Parts, class Digests, class L, class Drafting>
struct round_arrays : round_data<Parts, Digests, Drafting> {
  drafter::slot_lengths<L> lengths;

  /// Takes a draft into the chain of a slot, and asks whether one more is wanted. By one rank.
  HUNCH_HOST_DEVICE void take_draft(std::int32_t slot, const planned_draft& draft) const {
    round_plan& plan = this->plans[slot];
    plan.drafts = false;
    if (draft.what.position < 0) { return; }
    this->drafts_of(slot)[plan.chain] = draft.what;
    ++plan.chain;
    plan.evidence.probability = draft.probability;
    plan.evidence.reach *= draft.probability;
    plan.evidence.entropy = draft.entropy;
    plan.evidence.rows = plan.chain + 1;
    plan.evidence.drawn = draft.drawn;
    plan.drafts = lengths.drew(slot) && lengths.continues(slot, plan.evidence);
  }
};

}  // namespace hunch::diffusion

namespace hunch::kernel {

/// Begins the round of slot `slot`: how much may be drafted, and, where drafts were planned by the
/// round before, the chain of them.
template <class Round>
struct begin_round {
  Round round;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const sequence& s = round.of(slot);
    const bool runs = s.runs();
    if (runs && round.canvases[slot].id != s.id) { begin_canvas(team, slot); }
    const std::int32_t masks = runs ? masks_to_draft(team, slot) : 0;
    if (team.rank() != 0) { return; }
    const diffusion::running_canvas& c = round.canvases[slot];
    diffusion::round_plan& plan = round.plans[slot];
    plan = {};
    plan.takes_part = runs;
    plan.cancelled = round.in.is_cancelled(slot);
    plan.evidence.max_rows = Round::max_drafts + 1;
    if (runs && !plan.cancelled) {
      // The pass on a text without masks would decide nothing, so at least one is left.
      const std::int32_t room = smaller(smaller(round.draft_length, c.planned), masks - 1);
      plan.drafts = round.lengths.begin(slot, room) > 0;
      plan.asked = plan.drafts;
    }
    if constexpr (Round::drafts_by_model) {
      round.drafting.ask(slot, plan.drafts, 0);
    } else {
      const diffusion::planned_draft* const planned =
          round.planned + Round::at(slot, Round::max_drafts);
      while (plan.drafts) { round.take_draft(slot, planned[plan.chain]); }
    }
  }

 private:
  /// Of a sequence that has just come in. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE void begin_canvas(T& team, std::int32_t slot) const {
    const sequence& s = round.of(slot);
    const token* const text = s.text;
    const token mask = round.mask_token;
    const std::int32_t length = s.length;
    const std::int32_t answer = length - s.remaining;
    const auto least = [](std::int32_t a, std::int32_t b) { return a < b ? a : b; };
    const std::int32_t masks = team.reduce(
        length, std::int32_t(0), [=](std::int64_t i) { return text[i] == mask ? 1 : 0; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
    const std::int32_t filled = team.reduce(
        length, length,
        [=](std::int64_t i) { return text[i] == mask ? static_cast<std::int32_t>(i) : length; },
        least);
    const std::int32_t stopped = team.reduce(
        length, length,
        [=, &s](std::int64_t i) {
          const bool stops = i >= answer && diffusion::running_canvas::stops(s, text[i]);
          return stops ? static_cast<std::int32_t>(i) : length;
        },
        least);
    team.sync();  // all ranks have seen which canvas is here
    if (team.rank() == 0) {
      // What reads the target's passes has seen none, and a cache of blocks is made by the first.
      const bool at_once =
          Round::drafts_by_model && !Round::drafts_observe && !Round::caches_blocks;
      round.canvases[slot] = {.id = s.id,
                              .length = length,
                              .answer = answer,
                              .block_length = round.block_lengths[slot],
                              .begins = true,
                              .draft_begins = true,
                              .state = {.filled = filled, .masks = masks, .stopped_at = stopped},
                              .planned = at_once ? Round::max_drafts : 0,
                              .opened = -1};
    }
    team.sync();
  }

  /// The masks of the text, or of its first block with masks, where drafts end with it. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE std::int32_t masks_to_draft(T& team, std::int32_t slot) const {
    const diffusion::running_canvas& c = round.canvases[slot];
    if constexpr (!Round::caches_blocks) {
      return c.state.masks;
    } else {
      const token* const from = round.of(slot).text + c.state.filled;
      const token mask = round.mask_token;
      return team.reduce(
          c.end_of_block(c.state.filled) - c.state.filled, std::int32_t(0),
          [=](std::int64_t i) { return from[i] == mask ? 1 : 0; },
          [](std::int32_t a, std::int32_t b) { return a + b; });
    }
  }
};

/// After a pass of the draft model over texts with `depth` drafts: what comes next in slot `slot`.
/// \tparam View of its passes.
template <class Round, class View>
struct draft_next {
  Round round;
  std::int32_t depth;
  bool entropies;  ///< that of the next draft is wanted
  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t slot) const {
    choose_unmaskings<View>{.views = round.drafting.pass.views,
                            .drafts = round.drafting.list(depth, 0),
                            .capacity = round.drafting.capacity,
                            .entropies = entropies}(team, slot);
    team.sync();
    if (team.rank() != 0) { return; }
    const diffusion::round_plan& plan = round.plans[slot];
    if (plan.drafts) { round.take_draft(slot, round.drafting.list(depth, slot)[0]); }
    round.drafting.ask(slot, plan.drafts, plan.chain);
  }
};

/// Chooses what is on the canvases of slot `slot`.
template <class Round>
struct choose_canvases {
  Round round;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    diffusion::round_plan& plan = round.plans[slot];
    round.proposed[slot] = 0;
    round.pass.of[slot].count = 0;
    if (!round.runs(slot)) { return; }
    diffusion::draft_sets sets(
        round.reached + Round::at(slot, diffusion::draft_sets::room(Round::max_drafts)),
        round.considered + Round::at(slot, diffusion::draft_sets::looked_at));
    const Round& all = round;
    round.proposed[slot] = sets.choose(
        round.drafts_of(slot), plan.chain, round.sets + Round::at(slot, Round::max_drafts + 1),
        round.spread, Round::drafts_by_model ? plan.chain : 1,
        [&all, slot](std::int32_t depth) { return all.known_after(slot, depth); });
    plan.deepest = sets.deepest();
    round.pass.of[slot].count = sets.size() + 1;
  }
};

/// Makes what was decided about slot `slot` final: cuts the unmaskings where decoding one token a
/// pass would have ended, writes them into the text and for the host, and keeps what the next round
/// drafts from. A request that waits for the slot is taken.
template <class Round>
struct end_round {
  Round round;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    team::list_by_slot(
        team,
        {.slot = slot, .slots = round.slots, .capacity = round.padded, .count = round.kept_count},
        [&](std::int32_t i) { return round.runs(i) ? 1 : 0; },
        [&](std::int32_t at, std::int32_t) { round.kept[at] = round.kept_canvas(slot); },
        [&](std::int32_t at) { round.kept[at] = -1; });
    if (team.rank() == 0) {
      if (slot + 1 == round.slots) { round.counters[slot].count_pass(round.pass.counts[0]); }
      end(slot);
    }
    team.sync();
    round.in.admit(team, slot);
    if (team.rank() == 0) { round.out.publish(slot); }
  }

 private:
  /// By one rank.
  HUNCH_HOST_DEVICE void end(std::int32_t slot) const {
    if (!round.plans[slot].takes_part) { return; }
    sequence& s = round.of(slot);
    draft_outcome outcome{.slot = slot};
    finish_reason finish = finish_reason::cancelled;
    std::int64_t n = round.out.counted[slot];
    if (round.plans[slot].cancelled) {
      write_end(slot, n++, finish, status::ok, -1);
    } else {
      const std::int32_t unmasked = unmask(slot, n, finish);
      const std::int32_t accepted = round.verdicts[slot].accepted;
      outcome.kept = smaller(unmasked, accepted);
      outcome.seen_levels = round.plans[slot].deepest;
      // What a stop cuts off was not refused.
      const bool refused = outcome.kept == accepted && refused_one(slot);
      round.counters[slot].count(round.pass.of[slot].count - 1,
                                 {round.plans[slot].deepest, outcome.kept + (refused ? 1 : 0)},
                                 outcome.kept, unmasked);
      n = round.out.counted[slot] + unmasked;
      if (finish == finish_reason::error) {
        const diffusion::decision& failed = round.verdicts[slot].next;
        write_end(slot, n++, finish, failed.status, failed.what.position);
      }
    }
    outcome.finished = finish != finish_reason::none;
    round.lengths.observe(slot, outcome);
    round.out.counted[slot] = n;
    if (outcome.finished) { s.id = 0; }
  }

  /// Writes what was decided for a slot into its text and its ring, from entry n on. Returns how
  /// many unmaskings that are.
  HUNCH_HOST_DEVICE std::int32_t unmask(std::int32_t slot, std::int64_t n,
                                        finish_reason& finish) const {
    const sequence& s = round.of(slot);
    diffusion::running_canvas& c = round.canvases[slot];
    const diffusion::unmask_verdict& v = round.verdicts[slot];
    const diffusion::unmasking* const accepted =
        round.accepted + Round::at(slot, Round::max_drafts);
    const std::int32_t known = c.known();
    const bool failed = v.next.status != status::ok;
    const std::int32_t decided = v.accepted + (failed ? 0 : 1);
    std::int32_t unmasked = 0;
    finish = finish_reason::none;
    while (finish == finish_reason::none && unmasked < decided) {
      const bool drafted = unmasked < v.accepted;
      const diffusion::unmasking w = drafted ? accepted[unmasked] : v.next.what;
      s.text[w.position] = w.t;
      ++unmasked;
      finish = c.ends_with(w, s, round.mask_token);
      round.out.at(slot, n++) = {.id = s.id,
                                 .t = w.t,
                                 .origin = drafted ? origin::accepted : origin_of_next(slot),
                                 .finish = finish,
                                 .status = status::ok,
                                 .position = w.position};
    }
    if (failed && finish == finish_reason::none) { finish = finish_reason::error; }
    c.begins = false;
    if (round.plans[slot].asked) { c.draft_begins = false; }
    c.opened = known;
    keep_plan(slot, c);
    return unmasked;
  }

  HUNCH_HOST_DEVICE void write_end(std::int32_t slot, std::int64_t n, finish_reason finish,
                                   status why, std::int32_t position) const {
    round.out.at(slot, n) = {.id = round.of(slot).id,
                             .t = no_token,
                             .origin = origin::sampled,
                             .finish = finish,
                             .status = why,
                             .position = position};
  }

  /// Whether a canvas of a slot has one draft more than those that were accepted.
  HUNCH_HOST_DEVICE bool refused_one(std::int32_t slot) const {
    const diffusion::drafted_canvases& drafts = round.pass.views[slot];
    for (std::int32_t c = 1; c <= drafts.drafted; ++c) {
      if (drafts.added(round.verdicts[slot].canvas, c) >= 0) { return true; }
    }
    return false;
  }
  /// Of the unmasking after the accepted drafts of a slot.
  HUNCH_HOST_DEVICE origin origin_of_next(std::int32_t slot) const {
    if (refused_one(slot)) { return origin::corrected; }
    return round.verdicts[slot].accepted > 0 ? origin::bonus : origin::sampled;
  }

  /// The drafts of a slot's next round, or how many there may be. Logits that were made under an
  /// older cache make none, and say nothing to a draft model.
  HUNCH_HOST_DEVICE void keep_plan(std::int32_t slot, diffusion::running_canvas& c) const {
    c.planned = 0;
    if (Round::caches_blocks && c.known() != c.opened) { return; }
    if constexpr (Round::drafts_observe) {
      // What was wanted of the canvas, but for the unmasking that it decided.
      c.planned =
          smaller(Round::max_drafts, round.pass.positions[round.kept_canvas(slot)].count - 1);
    } else if constexpr (Round::drafts_by_model) {
      c.planned = Round::max_drafts;
    } else {
      const diffusion::planned_draft* const from = round.next + Round::at(slot, Round::max_drafts);
      diffusion::planned_draft* const to = round.planned + Round::at(slot, Round::max_drafts);
      while (c.planned < Round::max_drafts && from[c.planned].digest >= 0) {
        to[c.planned] = from[c.planned];
        ++c.planned;
      }
    }
  }
};

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/decoder/detail/slot_view.hpp>
#include <hunch/decoder/detail/step_arrays.hpp>
#include <hunch/team/ask_for.hpp>
#include <hunch/team/few.hpp>
#include <hunch/team/list_by_slot.hpp>
#include <hunch/team/team.hpp>
#include <hunch/verifier/verifier.hpp>
#include <hunch/verifier/verify_rows.hpp>

/// \file
/// The bodies of a step but those of its drafter.

namespace hunch::kernel {

/// Begins the step of slot `slot`: a piece of its prompt, or all that is left of it and a root to
/// draft from. Prompts are read in the order of the slots.
template <class Real, std::int32_t N>
struct begin_step {
  step_arrays<Real, N> step;

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    step.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const auto reads = [&](std::int32_t i) {
      const std::int32_t left = step.of(i).unread();
      return left < step.chunk ? left : step.chunk;
    };
    const std::int32_t before = team::sum_of_few(team, slot, reads);
    if (team.rank() != 0) { return; }
    const sequence& s = step.of(slot);
    step_plan plan;
    step.contexts[slot] = {};
    step.trees.count(slot) = 0;
    if (s.runs()) {
      const std::int32_t room = before < step.chunks ? step.chunks - before : 0;
      plan.takes_part = true;
      plan.cancelled = step.in.is_cancelled(slot);
      plan.prefix = reads(slot) < room ? reads(slot) : room;
      plan.decodes = plan.prefix == s.unread();
      if (plan.cancelled) { plan = {.takes_part = true, .cancelled = true}; }
      const std::int32_t allowed =
          s.draft_length < step.draft_length ? s.draft_length : step.draft_length;
      // The last token of a text is never drafted.
      const std::int32_t most = s.remaining - 1 < allowed ? s.remaining - 1 : allowed;
      step.contexts[slot] = {.committed = s.text,
                             .length = s.length,
                             .max_depth = plan.decodes ? most : 0,
                             .seed = s.seed,
                             .parameters = s.parameters,
                             .counts = s.census.view(),
                             .cached = s.cached,
                             .prefix = plan.prefix,
                             .idle = allowed <= 0};
      step.trees.plant(slot, s.text[s.length - 1]);
    }
    step.plans[slot] = plan;
  }
};

/// The rows of the target's pass for slot `slot`: unread tokens of its prompt, then its tree.
template <class Real, class S, std::int32_t N>
struct place_rows {
  step_arrays<Real, N> step;

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    step.ask_nearby(team, slot);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const std::int32_t prefix = step.plans[slot].prefix;
    const std::int32_t cached = step.of(slot).cached;
    const token* const text = step.of(slot).text;
    const drafted_tokens tree = step.trees.tree(slot);
    const team::slot_entries rows = team::list_by_slot(
        team, {.slot = slot, .slots = step.slots, .capacity = step.padded, .count = step.counts},
        [&](std::int32_t i) { return step.rows_of(i); },
        [&](std::int32_t at, std::int32_t id) {
          const std::int32_t node = id - prefix;
          const std::int32_t above = node <= 0 ? id - 1 : prefix + tree.parent[node];
          step.rows.set(at, {.slot = slot,
                             .id = id,
                             .parent = above < 0 ? end_of_cache : above,
                             .position = cached + (node <= 0 ? id : prefix + tree.depth(node)),
                             .t = node < 0 ? text[cached + id] : tree.tokens[node],
                             .wanted = node >= 0});
          if (node >= 0) { step.laws[slot * N + node] = sampled_laws<Real, S>::unmade; }
        },
        [&](std::int32_t at) { step.rows.pad(at); });
    if (team.rank() == 0) { step.plans[slot].first_row = rows.first; }
  }
};

/// Takes rows of slot `slot` back for which the target's cache had no room. A shorter draft is
/// still exact, for which rows fit does not depend on what was drawn; without room for the root the
/// request ends.
template <class Real, std::int32_t N>
struct drop_target_rows {
  step_arrays<Real, N> step;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    step_plan& plan = step.plans[slot];
    if (team.rank() != 0 || !plan.takes_part) { return; }
    const std::int32_t rows = step.rows_of(slot);
    std::int32_t fitted = 0;
    while (fitted < rows && step.statuses[plan.first_row + fitted] == status::ok) { ++fitted; }
    plan.full = fitted < plan.prefix + (plan.decodes ? 1 : 0);
    if (plan.full || fitted == rows) { return; }
    step.trees.count(slot) = fitted - plan.prefix;
    step.trees.refused[slot] = -1;  // it hangs on what was dropped, or comes after it
  }
};

/// Makes the law of node `index` % N of slot `index` / N before the verifier reads it: where there
/// are teams to spare, rows are read side by side.
template <class Real, class S, std::int32_t N>
struct make_slot_laws {
  step_arrays<Real, N> step;
  S sampler;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;
  static constexpr int loads = team::loads_of<S>;
  static constexpr int blocks = sizeof(Real) > sizeof(float) ? 1 : team::blocks_of<S>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = index / N;
    if (!step.plans[slot].verifies() || index % N >= step.trees.count(slot)) { return; }
    const target_row<Real> row = slot_rows<Real, N>{&step, slot}[index % N];
    [[maybe_unused]] const slot_told<Real, N> told(&step, slot);
    if constexpr (team::spans_ranks<T>) { team.tell_with_next(told.of(index % N, row.logits)); }
    const law<Real> l = sampler(team, row.logits, row.parameters, row.history);
    if constexpr (team::spans_ranks<T>) { told.keep_sums(team, index % N, l); }
    if (team.rank() == 0) { step.laws[index] = l; }
  }
};

/// Verifies the draft of slot `slot`, and cuts the run where plain decoding would have ended. What
/// is decided is not final: a step may be repeated after it.
/// \tparam View the `slot_view` that the verifier is given.
template <class View, class Real, class S, class V, class Random, std::int32_t N>
struct decide_slot {
  step_arrays<Real, N> step;
  child_law children;
  S sampler;
  V verifier;
  Random random;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;
  static constexpr int loads = team::loads_of<decltype(View::target)>;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t slot) const {
    // The verdict goes through memory: a rule leaves no registers for it.
    if (step.plans[slot].verifies()) {
      verdict out;
      out.path = step.path(slot);
      verifier(team, view(slot), random, out);
      if (team.rank() == 0) { step.verdicts[slot] = out; }
    } else if (team.rank() == 0) {
      step.verdicts[slot] = verdict{};
    }
    team.sync();
    if (team.rank() == 0) { decide(slot); }
  }

  HUNCH_HOST_DEVICE HUNCH_INLINE View view(std::int32_t slot) const {
    const std::int32_t first = slot * N;
    decltype(View::target) target{{&step, slot}, {&step.laws, first}, sampler};
    if constexpr (tells_logits<View>) { target.told_rows = {&step, slot}; }
    return {.tree = {{.count = step.trees.count(slot),
                      .tokens = {&step.trees.tokens, first},
                      .parent = {&step.trees.parents, first},
                      .drawn_at = {&step.trees.drawn_at, first}}},
            .children = children,
            .target = target,
            .drafts = {{&step.trees.laws, first}, {&step.trees.lists, first}},
            .seed = {&step.in, slot},
            .length = {&step.in, slot},
            .scratch = step.scratch + first};
  }

 private:
  /// By one rank.
  HUNCH_HOST_DEVICE void decide(std::int32_t slot) const {
    const sequence& s = step.of(slot);
    const step_plan plan = step.plans[slot];
    const verdict& v = step.verdicts[slot];
    step_decision d;
    if (plan.cancelled) { d.finish = finish_reason::cancelled; }
    if (plan.full) { d.finish = finish_reason::cache_full; }
    if (plan.verifies()) {
      const std::int32_t last = v.accepted > 0 ? step.path(slot)[v.accepted - 1] : 0;
      const bool invalid = step.trees.refused[slot] == last;
      const status why = v.status == status::ok && invalid ? status::invalid_token : v.status;
      const std::int32_t decided = v.accepted + (why == status::ok ? 1 : 0);
      std::int64_t n = step.out.counted[slot];
      while (d.finish == finish_reason::none && d.emitted < decided) {
        const std::int32_t i = d.emitted++;
        const token t = step.emitted(slot, i);
        d.finish = s.ends_with(t, d.emitted);
        step.out.at(slot, n++) = {.id = s.id,
                                  .t = t,
                                  .origin = i < v.accepted ? origin::accepted : v.next_origin,
                                  .finish = d.finish,
                                  .status = status::ok};
      }
      // An error after the end of the text is none: plain decoding does not look there, and a
      // grammar allows nothing there.
      if (d.finish == finish_reason::none && why != status::ok) {
        d.finish = finish_reason::error;
        d.status = why;
      }
    }
    step.decisions[slot] = d;
    if (step.reports != nullptr) { step.reports[slot].decided = d; }
  }
};

/// What the rule of a `decide_slot` asks of node `index` % N of the chain of slot `index` / N, for
/// all nodes in the exchanges of one; see `Verifier`.
template <class Decide, std::int32_t N>
struct look_ahead {
  Decide decide;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = index / N;
    const std::int32_t node = index % N;
    const auto& step = decide.step;
    if (!step.plans[slot].verifies() || node >= step.trees.count(slot)) { return; }
    const auto view = decide.view(slot);
    if constexpr (looks_ahead<T, decltype(view), decltype(decide.verifier),
                              decltype(decide.random)>) {
      const std::uint64_t bits = decide.verifier.ahead(team, view, decide.random, node);
      if (team.rank() == 0) { step.ahead[index] = bits; }
    }
  }
};

/// Log-probabilities of emitted token `index` % N of slot `index` / N, if its request has asked.
template <class Real, std::int32_t N>
struct report_emitted {
  step_arrays<Real, N> step;
  static constexpr bool reads_rows = true;
  static constexpr bool spans_ranks = true;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = index / N;
    const std::int32_t i = index % N;
    if (!step.plans[slot].takes_part || i >= step.decisions[slot].emitted) { return; }
    const std::int32_t top = step.of(slot).log_probabilities;
    if (top < 0) { return; }
    const std::int32_t node = i == 0 ? 0 : step.path(slot)[i - 1];
    report_log_probabilities<Real>::of(
        team, {.drawn_from = step.laws + slot * N + node,
               .chosen = step.emitted(slot, i),
               .top = top,
               .result = step.log_probabilities +
                         static_cast<std::int64_t>(slot) * N * step.report_stride + i * (1 + top)});
  }
};

/// Makes what was decided about slot `slot` final: tokens go to its text and to the host, and what
/// enters the target's cache is listed, one row after the other by slot: what was read of its
/// prompt, the root, and the accepted nodes that stay in the text. A request that waits for the
/// slot is taken.
/// \tparam Counts whether the sampler asks which tokens occur.
template <class Real, std::int32_t N, bool Counts>
struct end_step {
  step_arrays<Real, N> step;
  bool has_lists;  ///< whether the drafter has shortlists

  template <Team T>
  HUNCH_HOST_DEVICE void ask_nearby(T& team, std::int32_t slot) const {
    step.ask_nearby(team, slot);
    team::ask_nearby_of_each(team, std::int64_t{slot} * N, N, step.trees.lists);
  }

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    const std::int32_t prefix = step.plans[slot].prefix;
    const std::int32_t first_row = step.plans[slot].first_row;
    const std::int32_t cached = step.of(slot).cached;  // which `end` changes
    const std::int32_t* const path = step.path(slot);
    team::list_by_slot(
        team,
        {.slot = slot, .slots = step.slots, .capacity = step.padded, .count = step.counts + 1},
        [&](std::int32_t i) { return step.keeps(i); },
        [&](std::int32_t at, std::int32_t k) {
          const std::int32_t id = k <= prefix ? k : prefix + path[k - prefix - 1];
          step.kept.set(at, {.slot = slot, .id = id});
          if (step.moves == nullptr) { return; }
          step.moves[at] = {.slot = slot, .row = first_row + id, .position = cached + k};
        },
        [&](std::int32_t at) {
          step.kept.pad(at);
          if (step.moves != nullptr) { step.moves[at] = {}; }
        });
    list_released(team,
                  {.slot = slot,
                   .slots = step.slots,
                   .capacity = step.padded > 0 ? step.slots : 0,
                   .count = step.counts + 2},
                  step.kept, [&](std::int32_t i) { return step.ends(i); });
    const bool goes_on = step.goes_on(slot);
    const std::int32_t emitted = step.decisions[slot].emitted;
    if (team.rank() == 0) {
      if (slot + 1 == step.slots) { step.counters[slot].count_pass(step.counts[0]); }
      end(slot);
    }
    if (goes_on) {
      step.of(slot).template append<Counts>(team, emitted,
                                            [&](std::int32_t i) { return step.emitted(slot, i); });
      if (team.rank() == 0) { step.of(slot).cached = cached + prefix + emitted; }
    }
    team.sync();
    step.in.template admit<Counts>(team, slot);
    if (team.rank() == 0) { step.out.publish(slot); }
  }

 private:
  /// By one rank.
  HUNCH_HOST_DEVICE void end(std::int32_t slot) const {
    const step_plan plan = step.plans[slot];
    step.outcomes[slot] = {};
    if (step.reports != nullptr) { step.reports[slot].takes_part = plan.takes_part; }
    if (!plan.takes_part) { return; }
    const verdict& v = step.verdicts[slot];
    const step_decision d = step.decisions[slot];
    const std::int32_t kept = d.emitted > 1 ? d.emitted - 1 : 0;
    const std::int32_t last = kept == 0 ? 0 : step.path(slot)[kept - 1];
    // With its name: where an unnamed list leaves a member out, nvcc 13 gives host code the others
    // in its place.
    step.outcomes[slot] = draft_outcome{.slot = slot,
                                        .first_row = plan.first_row,
                                        .prefix = plan.prefix,
                                        .path = plan.verifies() ? step.path(slot) : nullptr,
                                        .kept = kept,
                                        .last_row = plan.first_row + plan.prefix + last,
                                        .finished = d.finish != finish_reason::none};
    if (step.reports != nullptr) {
      step.reports[slot] = {.takes_part = true,
                            .verified = plan.verifies(),
                            .prefix = plan.prefix,
                            .draft = {},
                            .drafted = step.trees.count(slot) - 1,
                            .accepted = v.accepted,
                            .decided = d};
    }
    if (plan.verifies()) {
      const draft_tree<Real> tree = step.trees.tree(slot);
      const bool chose_rows = has_lists && step.trees.computed[slot] > 0;
      draft_extent draft =
          step.counters[slot].count(tree, chose_rows ? tree.lists : nullptr, v, d.emitted);
      step.outcomes[slot].seen_levels = draft.levels;
      draft.computed = kernel::smaller(draft.levels, step.trees.computed[slot]);
      if (step.reports != nullptr) { step.reports[slot].draft = draft; }
    }
    count_entries(slot, d);
    if (d.finish != finish_reason::none) { step.of(slot).id = 0; }
  }

  /// An end that comes without a token is an entry of its own.
  HUNCH_HOST_DEVICE void count_entries(std::int32_t slot, const step_decision& d) const {
    std::int64_t n = step.out.counted[slot] + d.emitted;
    const bool ends_text = d.finish == finish_reason::stop_token ||
                           d.finish == finish_reason::stop_string ||
                           d.finish == finish_reason::length;
    if (ends_text) {
      step.out.at(slot, n - 1).finish = d.finish;
    } else if (d.finish != finish_reason::none) {
      step.out.at(slot, n++) = {.id = step.of(slot).id,
                                .t = no_token,
                                .origin = origin::sampled,
                                .finish = d.finish,
                                .status = d.status};
    }
    step.out.counted[slot] = n;
  }
};

}  // namespace hunch::kernel

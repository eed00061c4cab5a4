// SPDX-License-Identifier: Apache-2.0

// Negative controls for self-speculation over canvases: every mutant must be seen by the harness
// that passes the library.

#include <bit>
#include <cstdint>

#include <doctest/doctest.h>

#include "../diffusion/fill.hpp"

namespace hunch::test {
namespace {

enum class unmask_defect {
  none,
  position_not_compared,
  other_drafts_not_compared,  ///< any canvas with the unmasking and as many others will do
  unmasks_the_refused_draft,
  logits_of_the_canvas_before,  ///< stale: the unmasking after accepted drafts comes from before
                                ///< them
  blocks_ignored,               ///< the surest position anywhere is unmasked
};

/// What one token a pass unmasks, with a defect.
template <unmask_defect Defect>
struct wrong_unmaskings {
  static constexpr bool lossless = true;  // what its author believed

  template <Team T, class View>
  static diffusion::decision choice(T& team, const View& view, std::int32_t r) {
    if constexpr (Defect != unmask_defect::blocks_ignored) {
      return view.choice(team, r);
    } else {
      const diffusion::canvas_positions at = view.canvases[r];
      diffusion::candidate best;
      for (std::int32_t i = at.first; i < at.first + at.count; ++i) {
        view.digests(team, i);
        diffusion::candidate c = view.digests.candidate_at(i);
        c.block = 0;
        best = i == at.first || view.digests.order.before(c, best) ? c : best;
      }
      return {best.what};
    }
  }

  /// The best unmasking by the logits of canvas `before` at a position that is masked in canvas
  /// `now`.
  template <Team T, class View>
  static diffusion::decision stale(T& team, const View& view, std::int32_t before,
                                   std::int32_t now) {
    const diffusion::canvas_positions at = view.canvases[now];
    diffusion::candidate best;
    for (std::int32_t i = at.first; i < at.first + at.front; ++i) {
      const std::int32_t then = view.find(before, view.digests.wanted[i].position);
      if (then < 0) { return view.choice(team, now); }
      view.digests(team, then);
      const diffusion::candidate c = view.digests.candidate_at(then);
      best = i == at.first || view.digests.order.before(c, best) ? c : best;
    }
    return {best.what};
  }

  /// Where unmasking w into canvas r leads.
  template <class View>
  static std::int32_t after(const View& view, std::int32_t r, diffusion::unmasking w) {
    if constexpr (Defect != unmask_defect::position_not_compared &&
                  Defect != unmask_defect::other_drafts_not_compared) {
      return view.after(r, w);
    }
    for (std::int32_t c = 1; c <= view.drafted; ++c) {
      if (Defect == unmask_defect::position_not_compared) {
        const std::int32_t i = view.added(r, c);
        if (i >= 0 && view.drafts[i].t == w.t) { return c; }
        continue;
      }
      if (std::popcount(view.sets[c]) != std::popcount(view.sets[r]) + 1) { continue; }
      for (std::int32_t i = 0; i < view.proposed; ++i) {
        if ((view.sets[c] >> i & 1) != 0 && view.drafts[i] == w) { return c; }
      }
    }
    return -1;
  }

  template <Team T, class View>
  static void accept(T& team, const View& view, std::int32_t c, diffusion::unmask_verdict& out) {
    if constexpr (Defect != unmask_defect::other_drafts_not_compared) {
      view.accept(team, c, out);
    } else {
      if (team.rank() == 0) { view.accepted[out.accepted] = out.next.what; }
      ++out.accepted;
      out.canvas = c;
    }
  }

  template <Team T, class View>
  void operator()(T& team, const View& view, diffusion::unmask_verdict& out) const {
    std::int32_t before = 0;
    for (;;) {
      out.next = choice(team, view, out.canvas);
      const std::int32_t next = after(view, out.canvas, out.next.what);
      if (next < 0) { break; }
      before = out.canvas;
      accept(team, view, next, out);
    }
    if constexpr (Defect == unmask_defect::unmasks_the_refused_draft) {
      for (std::int32_t c = 1; c <= view.drafted; ++c) {
        if (view.added(out.canvas, c) < 0) { continue; }
        view.accept(team, c, out);
        out.next = choice(team, view, out.canvas);
        return;
      }
    }
    if (Defect == unmask_defect::logits_of_the_canvas_before && out.accepted > 0) {
      out.next = stale(team, view, before, out.canvas);
    }
  }
};

static_assert(diffusion::DraftVerifier<wrong_unmaskings<unmask_defect::none>>);

/// The last of equally sure positions first.
struct highest_first : diffusion::order::confidence {
  static constexpr bool before(const diffusion::candidate& a, const diffusion::candidate& b) {
    if (a.block != b.block || a.score != b.score) { return confidence::before(a, b); }
    return a.what.position > b.what.position;
  }
};

constexpr canvas_world world{{3, 21, flavour::tied}, 1, nullptr, 3};

/// In how many of all canvases of up to five positions something else is unmasked.
template <class Decoder>
std::int32_t wrong_runs(Decoder& d, bool cached = false) {
  std::int32_t wrong = 0;
  for (std::int32_t length = 2; length <= 5; ++length) {
    for (const std::vector<token>& canvas : all_canvases(length)) {
      for (const std::int32_t block : {2, 3}) {
        canvas_task task{canvas, 1, block};
        task.cached = cached;
        wrong += agrees(fill(d, task), fill_stepwise(world, task)) ? 0 : 1;
      }
    }
  }
  return wrong;
}

/// Likewise of texts of eight masks, in which canvases with as many drafts abound.
template <class Decoder>
std::int32_t wrong_long_runs(Decoder& d) {
  std::int32_t wrong = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    canvas_task task{std::vector<token>(9, 1), 1, 8, 1.0, seed};
    task.canvas[0] = 2;
    wrong += agrees(fill(d, task), fill_stepwise(world, task)) ? 0 : 1;
  }
  return wrong;
}

template <unmask_defect Defect>
std::int32_t rule_gap() {
  std::int32_t gap = 0;
  for (const double spread : {diffusion::default_spread, 0.3}) {
    toy_masked<double> model{world};
    auto d = canvas_decoder<4>(model, 1, diffusion::order::confidence{}, wrong_unmaskings<Defect>{},
                               fill_sampler{}, spread);
    try {
      gap += wrong_runs(d) + wrong_long_runs(d);
    } catch (const broken_contract&) { ++gap; }
  }
  return gap;
}

template <cache_kind Cache>
std::int32_t cache_gap() {
  toy_masked<double, Cache> model{world};
  auto d = canvas_decoder<3>(model);
  try {
    return wrong_runs(d, true);
  } catch (const broken_contract&) { return 1; }
}

TEST_CASE("the right version of every mutant over canvases passes") {
  CHECK(rule_gap<unmask_defect::none>() == 0);
  CHECK(cache_gap<cache_kind::of_blocks>() == 0);
}

TEST_CASE("the position of a draft is not compared") {
  CHECK(rule_gap<unmask_defect::position_not_compared>() > 0);
}

TEST_CASE("what else is on a canvas is not compared") {
  CHECK(rule_gap<unmask_defect::other_drafts_not_compared>() > 0);
}

TEST_CASE("the draft that is refused is unmasked all the same") {
  CHECK(rule_gap<unmask_defect::unmasks_the_refused_draft>() > 0);
}

TEST_CASE("the highest position on ties") {
  toy_masked<double> model{world};
  auto speculative = canvas_decoder<3>(model, 1, highest_first{});
  CHECK(wrong_runs(speculative) > 0);
  auto stepwise = canvas_decoder<0>(model, 1, highest_first{});
  CHECK(wrong_runs(stepwise) > 0);
}

TEST_CASE("block order ignored") { CHECK(rule_gap<unmask_defect::blocks_ignored>() > 0); }

TEST_CASE("stale logits reused: those of the canvas before the last draft") {
  CHECK(rule_gap<unmask_defect::logits_of_the_canvas_before>() > 0);
}

TEST_CASE("stale logits reused: those of an older cache") {
  // The model has a cache and does not say so; the logits of one block choose in the next.
  CHECK(cache_gap<cache_kind::unsaid>() > 0);
}

}  // namespace
}  // namespace hunch::test

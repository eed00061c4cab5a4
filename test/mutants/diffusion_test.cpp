// SPDX-License-Identifier: Apache-2.0

// Negative controls for self-speculation over canvases: every mutant must be seen by the harness
// that passes the library.

#include <cstdint>

#include <doctest/doctest.h>

#include "../diffusion/fill.hpp"

namespace hunch::test {
namespace {

enum class write_defect {
  none,
  position_not_compared,
  writes_the_refused_draft,
  logits_of_the_canvas_before,  ///< stale: the write behind accepted drafts comes from before them
  blocks_ignored,               ///< the surest position anywhere is written
};

/// What one token a pass writes, with a defect.
template <write_defect Defect>
struct wrong_writes {
  static constexpr bool lossless = true;  // what its author believed

  template <Team T, class View>
  static diffusion::decision choice(T& team, const View& view, std::int32_t r) {
    if constexpr (Defect != write_defect::blocks_ignored) {
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

  /// The best write by the logits of canvas r at a position that is masked in canvas r + 1.
  template <Team T, class View>
  static diffusion::decision stale(T& team, const View& view, std::int32_t r) {
    const diffusion::canvas_positions now = view.canvases[r + 1];
    diffusion::candidate best;
    for (std::int32_t i = now.first; i < now.first + now.front; ++i) {
      const std::int32_t before = view.find(r, view.digests.wanted[i].position);
      if (before < 0) { return view.choice(team, r + 1); }
      view.digests(team, before);
      const diffusion::candidate c = view.digests.candidate_at(before);
      best = i == now.first || view.digests.order.before(c, best) ? c : best;
    }
    return {best.what};
  }

  template <Team T, class View>
  void operator()(T& team, const View& view, diffusion::write_verdict& out) const {
    for (bool goes_on = true; goes_on;) {
      out.next = choice(team, view, out.accepted);
      goes_on = false;
      if (out.accepted == view.drafted) { continue; }
      const diffusion::write draft = view.drafts[out.accepted];
      goes_on = Defect == write_defect::position_not_compared ? out.next.what.t == draft.t
                                                              : out.next.what == draft;
      const bool refused = !goes_on && Defect == write_defect::writes_the_refused_draft;
      if (goes_on || refused) { ++out.accepted; }
      if (refused) { out.next = choice(team, view, out.accepted); }
    }
    if (Defect == write_defect::logits_of_the_canvas_before && out.accepted > 0) {
      out.next = stale(team, view, out.accepted - 1);
    }
  }
};

static_assert(diffusion::DraftVerifier<wrong_writes<write_defect::none>>);

/// The last of equally sure positions first.
struct highest_first : diffusion::order::confidence {
  static constexpr bool before(const diffusion::candidate& a, const diffusion::candidate& b) {
    if (a.block != b.block || a.score != b.score) { return confidence::before(a, b); }
    return a.what.position > b.what.position;
  }
};

constexpr canvas_world world{{3, 21, flavour::tied}, 1, nullptr, 3};

/// In how many of all canvases of up to five positions something else is written.
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

template <write_defect Defect>
std::int32_t rule_gap() {
  toy_masked<double> model{world};
  auto d = canvas_decoder<3>(model, 1, diffusion::order::confidence{}, wrong_writes<Defect>{});
  return wrong_runs(d);
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
  CHECK(rule_gap<write_defect::none>() == 0);
  CHECK(cache_gap<cache_kind::of_blocks>() == 0);
}

TEST_CASE("the position of a draft is not compared") {
  CHECK(rule_gap<write_defect::position_not_compared>() > 0);
}

TEST_CASE("the draft that is refused is written all the same") {
  CHECK(rule_gap<write_defect::writes_the_refused_draft>() > 0);
}

TEST_CASE("the highest position on ties") {
  toy_masked<double> model{world};
  auto speculative = canvas_decoder<3>(model, 1, highest_first{});
  CHECK(wrong_runs(speculative) > 0);
  auto stepwise = canvas_decoder<0>(model, 1, highest_first{});
  CHECK(wrong_runs(stepwise) > 0);
}

TEST_CASE("block order ignored") { CHECK(rule_gap<write_defect::blocks_ignored>() > 0); }

TEST_CASE("stale logits reused: those of the canvas before the last draft") {
  CHECK(rule_gap<write_defect::logits_of_the_canvas_before>() > 0);
}

TEST_CASE("stale logits reused: those of an older cache") {
  // The model has a cache and does not say so; the logits of one block choose in the next.
  CHECK(cache_gap<cache_kind::unsaid>() > 0);
}

}  // namespace
}  // namespace hunch::test

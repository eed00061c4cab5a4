// SPDX-License-Identifier: Apache-2.0

// Drafts by another model: whatever it drafts, the unmaskings are those of decoding one token a
// pass; and what it drafts is what it would unmask itself.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include "every_canvas.hpp"

namespace hunch::test::model_drafts_test {
namespace {

using diffusion::drafted_by;

constexpr canvas_world world{{3, 11, flavour::tied}};
constexpr canvas_world smooth_world{{3, 12, flavour::smooth}};
/// With room for other orders of writing.
constexpr canvas_world wide_world{{9, 31, flavour::smooth}, 8, nullptr, 7};
/// Nothing to do with the others.
constexpr canvas_world wrong_world{{3, 29, flavour::smooth}};

template <class Real = double>
toy_masked<Real> draft_model(const canvas_world& of, std::int32_t max_positions = 64) {
  toy_masked<Real> model{of, max_positions};
  model.drafts = true;
  return model;
}

template <std::int32_t N, class Model, class Draft, class L = length::fixed>
auto drafted_decoder(Model& model, Draft& draft, std::int32_t max_batch = 1, L length = {},
                     double spread = diffusion::default_spread) {
  return diffusion::decoder(
      model, diffusion::order::confidence{}, fill_sampler{}, diffusion::verifier::stepwise_exact{},
      drafted_by<N>(draft, length, spread), diffusion::decoder_options{.max_batch = max_batch});
}

/// Likewise, with drafts in a chain.
template <std::int32_t N, class Model, class Draft>
auto chain_drafted(Model& model, Draft& draft, std::int32_t max_batch = 1) {
  return drafted_decoder<N>(model, draft, max_batch, length::fixed{}, 0.0);
}

/// A model that drafts from what the target computed: it knows what it may be asked, and how far
/// the text is by then.
template <class Real = double>
class observing : public toy_masked<Real> {
 public:
  using base = toy_masked<Real>;
  static constexpr bool reads_target = true;

  explicit observing(const canvas_world& of) : base(of) { base::drafts = true; }

  template <class TargetEvaluation>
  void observe(const diffusion::decided_canvases& decided,
               const TargetEvaluation& evaluation) noexcept {
    static_assert(std::is_same_v<TargetEvaluation, typename base::evaluation>);
    (void)evaluation;
    for (std::int32_t k = 0; k < decided.size; ++k) {
      const std::int32_t canvas = decided.kept[k];
      const auto tokens = decided.pass.canvas(canvas);
      const auto wanted = decided.pass.wanted_of(canvas);
      seen& s = seen_[decided.pass.slot[canvas]];
      s.tokens.assign(tokens.data, tokens.data + tokens.size);
      s.wanted.assign(wanted.data, wanted.data + wanted.size);
      s.drafts = 0;
    }
    ++observed;
  }

  typename base::evaluation evaluate(const diffusion::canvases& asked) {
    for (std::int32_t i = 0; i < asked.size; ++i) {
      require(seen_.count(asked.slot[i]) == 1, "a slot of which nothing was observed");
      seen& s = seen_[asked.slot[i]];
      const auto tokens = asked.canvas(i);
      require(tokens.size == static_cast<std::int32_t>(s.tokens.size()), "another canvas");
      std::int32_t unmasked = 0;
      for (std::int32_t p = 0; p < tokens.size; ++p) {
        const token before = s.tokens[static_cast<std::size_t>(p)];
        if (tokens[p] == before) { continue; }
        require(before == base::mask_token(), "another text");
        ++unmasked;
      }
      // What the observed canvas decided, and the drafts so far.
      require(unmasked == 1 + s.drafts, "not the canvas that was kept");
      ++s.drafts;
      const auto wanted = asked.wanted_of(i);
      for (std::int32_t w = 0; w < wanted.size; ++w) {
        require(std::ranges::count(s.wanted, wanted[w]) == 1, "a position that was not observed");
      }
    }
    return base::evaluate(asked);
  }

  void release(std::int32_t slot) noexcept { seen_.erase(slot); }
  bool keeps_anything() const { return !seen_.empty(); }

  std::int64_t observed = 0;

 private:
  struct seen {
    std::vector<token> tokens;
    std::vector<std::int32_t> wanted;
    std::int32_t drafts = 0;
  };
  std::map<std::int32_t, seen> seen_;
};

template <std::int32_t N, class Target, class Draft>
void run_drafts(const canvas_world& of, const Draft& model_of_drafts, bool cached, tally& sum) {
  for (const double temperature : {0.0, 1.0}) {
    Target target{of};
    Draft draft = model_of_drafts;
    auto d = drafted_decoder<N>(target, draft);
    static_assert(decltype(d)::lossless);
    canvas_task like;
    like.temperature = temperature;
    like.cached = cached;
    fill_every_canvas(d, of, 5, like, sum);
    CHECK(!target.keeps_anything());
    CHECK(!draft.keeps_anything());
  }
}

template <class Target, class Draft>
tally run_draft_model(const canvas_world& of, const Draft& draft, bool cached = false) {
  tally sum;
  run_drafts<1, Target>(of, draft, cached, sum);
  run_drafts<2, Target>(of, draft, cached, sum);
  run_drafts<4, Target>(of, draft, cached, sum);
  CHECK(sum.wrong == 0);
  MESSAGE(sum.runs << " runs, " << sum.accepted << " drafts accepted, " << sum.refused
                   << " refused");
  return sum;
}

TEST_CASE("every canvas, drafted by a model of another mind") {
  for (const canvas_world& of : {world, smooth_world}) {
    const tally sum = run_draft_model<toy_masked<double>>(of, draft_model(wrong_world));
    CHECK(sum.accepted > 300);
    CHECK(sum.refused > 300);
  }
}

TEST_CASE("every canvas, where rows of the target or of the draft model have no law") {
  constexpr canvas_world damaged{{3, 12, flavour::smooth, 0, nullptr, 17}};
  constexpr canvas_world damaged_drafts{{3, 12, flavour::smooth, 0, nullptr, 18}};
  for (const canvas_world& of : {smooth_world, damaged}) {
    const tally sum = run_draft_model<toy_masked<double>>(of, draft_model(damaged_drafts));
    CHECK(sum.accepted > 300);
  }
}

TEST_CASE("every canvas, drafted in single precision for a target in double") {
  const tally sum =
      run_draft_model<toy_masked<double>>(smooth_world, draft_model<float>(smooth_world));
  CHECK(sum.accepted > 300);
}

TEST_CASE("every canvas, drafted by what reads the target's passes") {
  for (const canvas_world& of : {smooth_world, wrong_world}) {
    const tally sum = run_draft_model<toy_masked<double>>(of, observing<double>{smooth_world});
    CHECK(sum.accepted > 300);
  }
}

TEST_CASE("every canvas, drafted for a target with a block cache") {
  using cached = toy_masked<double, cache_kind::of_blocks>;
  const tally sum = run_draft_model<cached>(world, draft_model(world), true);
  CHECK(sum.accepted > 100);
  CHECK(sum.refused > 100);
}

TEST_CASE("as many canvases as there can be, in a chain and in many orders") {
  constexpr canvas_world large{{9, 31, flavour::smooth}, 8, nullptr, 7};
  constexpr canvas_world other{{9, 33, flavour::smooth}, 8, nullptr, 7};
  for (const double spread : {0.0, 0.4, 0.95}) {
    canvas_task task{std::vector<token>(80, large.mask), 1, 70, spread, 3};
    task.canvas[0] = 2;
    toy_masked<double> target{large, 100};
    toy_masked<double> draft = draft_model(other, 100);
    auto by_itself =
        canvas_decoder<63>(target, 1, diffusion::order::confidence{},
                           diffusion::verifier::stepwise_exact{}, fill_sampler{}, spread);
    auto by_model = drafted_decoder<63>(target, draft, 1, length::fixed{}, spread);
    const textbook_result expected = fill_stepwise(large, task);
    CHECK(agrees(fill(by_itself, task), expected));
    CHECK(agrees(fill(by_model, task), expected));
    CHECK(by_itself.stats().accepted > 0);
    CHECK(by_model.stats().drafted > 1000);
  }
}

TEST_CASE("a draft model of the target's mind is never refused") {
  for (const double temperature : {0.0, 0.9}) {
    toy_masked<double> target{smooth_world};
    toy_masked<double> draft = draft_model(smooth_world);
    auto d = chain_drafted<3>(target, draft);
    std::vector<token> canvas(14, 1);
    canvas[0] = canvas[1] = 2;
    canvas_task task{canvas, 2, 5, temperature};
    task.seed = 6;
    CHECK(agrees(fill(d, task), fill_stepwise(smooth_world, task)));
    CHECK(d.stats().target_passes == 3);  // four unmaskings each
    CHECK(d.stats().drafted == d.stats().accepted);
    CHECK(draft.passes.size() == 9);
    // What reads the target's passes has nothing to go by in the first round.
    observing<double> head{smooth_world};
    auto h = chain_drafted<3>(target, head);
    CHECK(agrees(fill(h, task), fill_stepwise(smooth_world, task)));
    CHECK(h.stats().target_passes == 4);
    CHECK(h.stats().drafted == h.stats().accepted);
    CHECK(head.observed == 4);
  }
}

TEST_CASE("what reads the target's passes is shown the canvas that was kept, whatever the order") {
  std::int64_t accepted = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    toy_masked<double> target{wide_world};
    observing<double> head{wide_world};
    auto d = drafted_decoder<6>(target, head, 1, length::fixed{}, 0.8);
    canvas_task task{std::vector<token>(25, wide_world.mask), 1, 8, 1.0, seed};
    task.canvas[0] = 2;
    CHECK(agrees(fill(d, task), fill_stepwise(wide_world, task)));
    accepted += d.stats().accepted;
  }
  CHECK(accepted > 0);
}

TEST_CASE("in a batch, drafts are drawn for the request whose they are") {
  toy_masked<double> target{smooth_world};
  toy_masked<double> draft = draft_model(smooth_world);
  auto d = chain_drafted<4>(target, draft, 3);
  for (const std::size_t masks :
       std::initializer_list<std::size_t>{2, 5, 13}) {  // they have room for 1, 4 and 4 drafts
    std::vector<token> canvas(masks + 1, 1);
    canvas[0] = 2;
    canvas_task task{canvas, 1, 4, masks == 5 ? 0.0 : 1.5};
    task.seed = masks;
    add(d, task);
  }
  finish(d);
  CHECK(d.stats().drafted == 1 + 4 + 10);
  CHECK(d.stats().accepted == d.stats().drafted);
}

TEST_CASE("a draft length that changes between rounds, with what reads the target's passes") {
  toy_masked<double> target{smooth_world};
  observing<double> head{smooth_world};
  auto d = drafted_decoder<4>(target, head);
  std::vector<token> canvas(20, 1);
  canvas[0] = 2;
  const canvas_task task{canvas, 1, 2};
  const request_id id = add(d, task);
  fill_result found;
  for (std::int32_t round = 0; d.running() > 0; ++round) {
    d.draft_length(round % 3 == 0 ? 1 : 4);  // fewer positions are wanted with 1
    for (const diffusion::emission& e : d.step()) { append(found, e); }
  }
  CHECK(id > 0);
  CHECK(agrees(found, fill_stepwise(smooth_world, task)));
}

/// Requests of several lengths that join and leave, and slots that are used again.
template <class Draft, class L>
void run_batch(Draft draft, L length) {
  toy_masked<double> target{smooth_world};
  auto d = drafted_decoder<3>(target, draft, 3, length);
  std::map<request_id, canvas_task> tasks;
  std::map<request_id, fill_result> found;
  std::uint64_t seed = 0;
  const auto join = [&] {
    std::vector<token> canvas(static_cast<std::size_t>(4 + seed % 9), 1);
    canvas[0] = 2;
    canvas_task task{canvas, 1, 1 + static_cast<std::int32_t>(seed % 4), seed % 2 == 0 ? 0.0 : 0.8};
    task.seed = ++seed;
    tasks[add(d, task)] = task;
  };
  while (seed < 24 || d.running() > 0) {
    while (seed < 24 && d.running() < 3) { join(); }
    for (const diffusion::emission& e : d.step()) { append(found[e.id], e); }
    if (seed == 13 && d.running() == 2) {
      CHECK(d.cancel(tasks.rbegin()->first));
      tasks.erase(tasks.rbegin()->first);
    }
  }
  CHECK(tasks.size() > 20);
  for (const auto& [id, task] : tasks) {
    CHECK(agrees(found[id], fill_stepwise(smooth_world, task)));
  }
  CHECK(!draft.keeps_anything());
  CHECK(d.stats().accepted > 0);
}

TEST_CASE("batches, and length policies") {
  run_batch(draft_model(smooth_world), length::fixed{});
  run_batch(draft_model(wrong_world), length::ewma{});
  run_batch(draft_model(wrong_world), length::confidence{});
  run_batch(observing<double>{smooth_world}, length::entropy{});
  run_batch(observing<double>{wrong_world}, length::fixed{});
}

TEST_CASE("rows without a law make no drafts") {
  canvas_world broken = smooth_world;
  broken.edit = [](std::uint64_t, std::int32_t, double* row) {
    row[0] = -std::numeric_limits<double>::quiet_NaN();
  };
  toy_masked<double> target{smooth_world};
  toy_masked<double> draft = draft_model(broken);
  auto d = drafted_decoder<3>(target, draft);
  const canvas_task task{{2, 1, 1, 1, 1}, 1, 2};
  CHECK(agrees(fill(d, task), fill_stepwise(smooth_world, task)));
  CHECK(d.stats().drafted == 0);
  CHECK(d.stats().target_passes == 4);
}

TEST_CASE("a draft model that throws leaves the decoder as it was") {
  const canvas_task task{{2, 1, 1, 1, 1, 1, 1}, 1, 3};
  const textbook_result expected = fill_stepwise(smooth_world, task);
  for (std::int64_t at = 0; at < 12; ++at) {
    CAPTURE(at);
    toy_masked<double> target{smooth_world};
    toy_masked<double> draft = draft_model(smooth_world);
    failure_plan plan{0, at};
    draft.failures = &plan;
    auto d = drafted_decoder<2>(target, draft, 1, length::ewma{});
    add(d, task);
    fill_result found;
    std::int64_t thrown = 0;
    while (d.running() > 0) {
      const auto steps = d.stats().steps;
      try {
        for (const diffusion::emission& e : d.step()) { append(found, e); }
      } catch (const std::exception&) {
        ++thrown;
        CHECK(d.stats().steps == steps);
      }
    }
    CHECK(agrees(found, expected));
    CHECK(thrown == (at < plan.calls ? 1 : 0));
  }
}

std::string refusal_of(const canvas_world& of, std::int32_t max_positions = 64) {
  toy_masked<double> target{smooth_world};
  toy_masked<double> draft = draft_model(of, max_positions);
  try {
    auto d = drafted_decoder<2>(target, draft);
  } catch (const std::invalid_argument& e) { return e.what(); }
  return "";
}

TEST_CASE("draft models that do not fit are refused") {
  CHECK(refusal_of(smooth_world).empty());
  CHECK(refusal_of({{4, 12, flavour::smooth}}).find("another vocabulary") != std::string::npos);
  CHECK(refusal_of({{3, 12, flavour::smooth}, 2}).find("mask token") != std::string::npos);
  CHECK(refusal_of(smooth_world, 63).find("max_positions() 63") != std::string::npos);
}

}  // namespace
}  // namespace hunch::test::model_drafts_test

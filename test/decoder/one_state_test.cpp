// SPDX-License-Identifier: Apache-2.0

// Models with one state for a sequence, which cannot take back what they have read, write what
// models write that stage rows as the contract says.

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/decoder/decoder.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/one_of.hpp>
#include <hunch/model/checkpoint_plan.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include "../support/hash.hpp"
#include "../support/toy_model.hpp"

namespace hunch::test::one_state_test {
namespace {

constexpr std::int32_t vocab = 23;
constexpr std::int32_t batch = 3;
constexpr std::int32_t chunk = 4;
constexpr std::int32_t most_staged = 16;

/// An engine that has read so many tokens of a sequence, whose hash is all that it knows.
struct recurrent_engine {
  struct state {
    std::uint64_t text = hash_of(std::vector<token>{});
    std::int32_t length = 0;
  };
  state now[batch];
  state saved[batch];
  std::vector<std::uint64_t> texts;  ///< of the rows of the last pass
  std::int64_t read_rows = 0;
  std::int64_t passes = 0;
  std::int64_t fail_at = -1;  ///< the pass that throws, when it has read a part

  void apply(std::span<const state_edit> edits) {
    for (const state_edit& e : edits) {
      if (e.what == state_edit::kind::save) { saved[e.slot] = now[e.slot]; }
      if (e.what == state_edit::kind::restore) { now[e.slot] = saved[e.slot]; }
      if (e.what == state_edit::kind::clear) { now[e.slot] = saved[e.slot] = {}; }
    }
  }
  void read(std::span<const checkpoint_plan::row> rows) {
    const bool fails = passes++ == fail_at;
    texts.clear();
    for (const checkpoint_plan::row& row : rows) {
      state& s = now[row.slot];
      REQUIRE(s.length == row.position);
      s.text = extend(s.text, row.t);
      ++s.length;
      texts.push_back(s.text);
      ++read_rows;
      if (fails) { throw planned_failure(); }
    }
  }
};

struct recurrent {
  static constexpr bool has_one_state = true;

  recurrent(const toy_world& of, std::int32_t reread) : world(of), max_reread(reread) {}

  toy_world world;
  std::int32_t max_reread;
  checkpoint_plan plan{batch, batch* most_staged, most_staged, max_reread};
  recurrent_engine engine;
  std::vector<float> values;
  std::int64_t late_passes = 0;

  struct evaluation {
    recurrent* of;
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<float> logits(std::int32_t i) const {
      return {of->values.data() + std::ptrdiff_t{i} * vocab, vocab};
    }
  };
  std::int32_t vocab_size() const { return vocab; }
  evaluation evaluate(const rows& r) {
    plan.stage(r);
    if (!plan.late().empty()) {
      CHECK(static_cast<std::int32_t>(plan.late().size()) <= plan.max_late());
      engine.apply(plan.edits());
      engine.read(plan.late());
      plan.caught_up();
      ++late_passes;
    }
    engine.apply(plan.edits());
    plan.edited();
    CHECK(static_cast<std::int32_t>(plan.pass().size()) <= plan.max_pass());
    engine.read(plan.pass());
    values.resize(static_cast<std::size_t>(r.size * vocab));
    for (std::int32_t i = 0; i < r.size; ++i) {
      world.logits(engine.texts[static_cast<std::size_t>(plan.place(i))],
                   values.data() + std::ptrdiff_t{i} * vocab);
    }
    return {this};
  }
  void commit(const kept_rows& kept) noexcept { plan.keep(kept); }
};

constexpr toy_world target_world{vocab, 5, flavour::smooth};
constexpr toy_world draft_world{vocab, 6, flavour::smooth};

/// What six requests emit, of which three run at a time, and one is cancelled. A step that throws
/// is repeated.
template <class Verifier, class Target, class Draft>
std::vector<std::vector<token>> texts(Target& target, Draft& draft, float temperature) {
  decoder d{target,
            drafter::autoregressive{draft, tree::chain<4>{}},
            selector::full{vocab},
            sampler::pipeline<sampler::temperature>{},
            Verifier{},
            decoder_options{.max_batch = batch, .chunk = chunk, .token_text = {}}};
  std::vector<std::vector<token>> out(7);
  request_id cancelled = 0;
  for (int request = 0, steps = 0; request < 6 || d.running() > 0; ++steps) {
    if (request < 6 && d.running() < batch) {
      generation_options options;
      options.max_new_tokens = 11 + 7 * request;
      options.temperature = temperature;
      options.seed = static_cast<std::uint64_t>(request);
      std::vector<token> prompt;
      for (token t = 0; t <= 3 * request; ++t) { prompt.push_back(t % vocab); }
      const request_id id = d.add(prompt, options);
      if (++request == 2) { cancelled = id; }
    }
    const auto step = [&] {
      try {
        return d.step();
      } catch (const planned_failure&) { return d.step(); }
    };
    for (const emission& e : step()) {
      auto& text = out[static_cast<std::size_t>(e.id)];
      text.insert(text.end(), e.tokens.begin(), e.tokens.end());
    }
    if (steps == 4) { d.cancel(cancelled); }
  }
  CHECK(d.stats().accepted > 0);
  CHECK(d.stats().accepted < d.stats().drafted);
  return out;
}

template <class Verifier>
std::vector<std::vector<token>> expected_texts(float temperature) {
  toy_target<float> target{target_world};
  toy_draft<float> draft{draft_world, vocab_layout::identity(vocab)};
  return texts<Verifier>(target, draft, temperature);
}

}  // namespace

TEST_CASE("models with one state write the same texts") {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const std::int32_t max_reread : {0, 3, 100}) {
      CAPTURE(temperature);
      CAPTURE(max_reread);
      recurrent target{target_world, max_reread};
      recurrent smaller{draft_world, max_reread};
      full_logits draft{smaller};
      CHECK(texts<verifier::rejection>(target, draft, temperature) ==
            expected_texts<verifier::rejection>(temperature));
      // What is read again in passes of its own is read once.
      CHECK((target.late_passes > 0) == (max_reread < 100));
      const std::int64_t again = target.engine.read_rows;
      recurrent never_late{target_world, 100};
      recurrent other{draft_world, 100};
      full_logits other_draft{other};
      texts<verifier::rejection>(never_late, other_draft, temperature);
      CHECK(again <= never_late.engine.read_rows);
      // What has ended leaves nothing behind.
      target.engine.apply(target.plan.edits());
      for (const auto& s : target.engine.now) { CHECK(s.length == 0); }
    }
  }
}

TEST_CASE("a pass of a model with one state that throws is repeated") {
  for (std::int64_t at = 0; at < 40; at += 3) {
    CAPTURE(at);
    recurrent target{target_world, 3};
    recurrent smaller{draft_world, 3};
    full_logits draft{smaller};
    (at % 2 == 0 ? target : smaller).engine.fail_at = at;
    CHECK(texts<verifier::block>(target, draft, 1.0f) == expected_texts<verifier::block>(1.0f));
  }
}

TEST_CASE("a state holds no branches") {
  recurrent target{target_world, 3};
  const std::int32_t slot[] = {0, 0, 0};
  const std::int32_t id[] = {0, 1, 2};
  const std::int32_t parent[] = {end_of_cache, 0, 0};
  const std::int32_t position[] = {0, 1, 1};
  const token tokens[] = {1, 2, 3};
  const std::uint8_t wanted[] = {1, 1, 1};
  CHECK_THROWS_AS(target.evaluate({.size = 3,
                                   .slot = slot,
                                   .id = id,
                                   .parent = parent,
                                   .position = position,
                                   .tokens = tokens,
                                   .wanted = wanted}),
                  std::invalid_argument);
  // Of the drafters that could have been chosen, too.
  using branching = drafter::autoregressive<toy_draft<float>, tree::dynamic<2, 2, 4>>;
  using any = drafter::one_of<drafter::lookup<3>, branching>;
  const auto made = [&](any which) {
    decoder d{target, std::move(which), selector::full{vocab},
              sampler::pipeline<sampler::temperature>{}, verifier::point_mass{}};
  };
  CHECK_NOTHROW(made(drafter::lookup<3>{}));
  CHECK_THROWS_AS(made(branching{{draft_world, vocab_layout::identity(vocab)}}),
                  std::invalid_argument);
}

TEST_CASE("slots that are released again and again have nothing to clear") {
  checkpoint_plan plan(1, 4, 4, 4);
  const std::int32_t slot = 0;
  for (int n = 0; n < 100; ++n) { plan.keep({.release_count = 1, .released = &slot}); }
  CHECK(plan.edits().empty());
}

}  // namespace hunch::test::one_state_test

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
#include <hunch/model/fitted_pass.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/model/other_vocabulary.hpp>
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
  std::int64_t edits_made = 0;
  std::int64_t fail_edit = -1;  ///< the edit that throws

  void apply(std::span<const state_edit> edits) {
    for (const state_edit& e : edits) {
      if (edits_made++ == fail_edit) { throw planned_failure(); }
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

/// The same with an engine that has room for so many rows or reads none.
struct tight : recurrent {
  tight(const toy_world& of, std::int32_t reread, std::int32_t most)
      : recurrent(of, reread), room(most) {}

  std::int32_t room;
  fitted_pass fitted{batch * most_staged};
  std::int64_t refused = 0;

  struct evaluation {
    tight* of;
    recurrent::evaluation read;
    hunch::status status(std::int32_t i) const { return of->fitted.status(i); }
    row_view<float> logits(std::int32_t i) const { return read.logits(of->fitted.place(i)); }
  };
  evaluation evaluate(const rows& r) {
    evaluation out{this, {this}};
    fitted.read(r, [&](const rows& some) {
      plan.stage(some);
      if (static_cast<std::int32_t>(plan.pass().size()) > room) {
        ++refused;
        return false;
      }
      out.read = recurrent::evaluate(some);
      return true;
    });
    return out;
  }
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
      CHECK((again < never_late.engine.read_rows) == (max_reread < 100));
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
    recurrent_engine& engine = (at % 2 == 0 ? target : smaller).engine;
    engine.fail_at = at;
    CHECK(texts<verifier::block>(target, draft, 1.0f) == expected_texts<verifier::block>(1.0f));
    CHECK(engine.passes > at);
  }
}

TEST_CASE(
    "edits of states that throw are made again, beside a draft and before a pass of its own") {
  const auto expected = expected_texts<verifier::rejection>(1.0f);
  for (const std::int32_t max_reread : {0, 3}) {
    for (std::int64_t at = 0; at < 40; ++at) {
      CAPTURE(at);
      recurrent target{target_world, max_reread};
      recurrent smaller{draft_world, max_reread};
      full_logits draft{smaller};
      recurrent_engine& engine = (at % 2 == 0 ? target : smaller).engine;
      engine.fail_edit = at;
      CHECK(texts<verifier::rejection>(target, draft, 1.0f) == expected);
      CHECK(engine.edits_made > at);
    }
  }
}

TEST_CASE("a state, and an engine that has room for all rows of a pass or reads none") {
  // Room for what has to be read of three sequences, and not for three drafts beside it.
  constexpr std::int32_t max_reread = 3;
  tight target{target_world, max_reread, batch * (chunk + max_reread)};
  recurrent smaller{draft_world, max_reread};
  full_logits draft{smaller};
  CHECK(texts<verifier::rejection>(target, draft, 0.0f) ==
        expected_texts<verifier::rejection>(0.0f));
  CHECK(target.refused > 0);
}

TEST_CASE("rows that are staged once more take the place of those from the first of them on") {
  checkpoint_plan plan(1, 4, 4, 4);
  const std::int32_t slot[] = {0, 0, 0, 0, 0}, id[] = {0, 1, 2, 3, 4};
  const std::int32_t parent[] = {end_of_cache, 0, 1, 2, 3};
  token t[] = {5, 6, 7, 8, 9};
  const std::uint8_t wanted[5] = {};
  const auto pass = [&](std::int32_t from, std::int32_t size) {
    return rows{.size = size,
                .slot = slot,
                .id = id + from,
                .parent = parent + from,
                .position = id + from,
                .tokens = t + from,
                .wanted = wanted};
  };
  plan.stage(pass(0, 2));
  plan.stage(pass(2, 2));
  t[1] = 16;
  plan.stage(pass(1, 1));  // 5, 16: what came behind is void
  plan.keep({.size = 2, .slot = slot, .id = id});
  CHECK(plan.length(0) == 2);
  plan.stage(pass(0, 1));
  REQUIRE(plan.edits().size() == 1);
  CHECK(plan.edits()[0] == state_edit{0, state_edit::kind::save});

  CHECK_THROWS_WITH_AS(plan.stage(pass(0, 5)),
                       "hunch::checkpoint_plan: a pass of 5 rows, and room for 4",
                       std::length_error);
  checkpoint_plan narrow(1, 5, 4, 4);
  CHECK_THROWS_WITH_AS(narrow.stage(pass(0, 5)),
                       "hunch::checkpoint_plan: room for 4 staged rows of a sequence",
                       std::length_error);
}

TEST_CASE("passes that fail leave one edit, however many they are") {
  checkpoint_plan plan(1, 4, 4, 4);
  const std::int32_t zero = 0, end = end_of_cache;
  const token t = 3;
  const std::uint8_t wanted = 0;
  for (int n = 0; n < 100; ++n) {
    plan.stage({.size = 1,
                .slot = &zero,
                .id = &zero,
                .parent = &end,
                .position = &zero,
                .tokens = &t,
                .wanted = &wanted});
  }
  CHECK(plan.edits().size() == 1);
}

// However it is wrapped, trees do not compile with it.
static_assert(has_one_state<full_logits<recurrent>>);
static_assert(has_one_state<other_vocabulary<full_logits<recurrent>>>);

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

// SPDX-License-Identifier: Apache-2.0

// What a meter takes from steps of which it knows little: prices that have grown old, trees of very
// many rows, batches in which most sequences copy, and those that prompts come into.

#include <algorithm>
#include <cstdint>

#include <doctest/doctest.h>

#include <hunch/length/detail/step_prices.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch::test::prices_test {
namespace {

step_summary plain_step(std::int32_t sequences = 1, double seconds = 1.0) {
  step_summary s;
  s.sequences = sequences;
  s.emitted = sequences;
  s.target_seconds = seconds;
  return s;
}

/// Of so many levels for each sequence, of one row each; all rejected.
step_summary drafting_step(std::int32_t sequences, std::int32_t levels, double draft,
                           double target) {
  step_summary s = plain_step(sequences, target);
  s.draft_length = s.deepest = s.deepest_computed = levels;
  s.levels = s.computed = s.drafted = std::int64_t{sequences} * levels;
  s.tested = sequences;
  s.draft_seconds = draft;
  return s;
}

length::detail::step_prices prices_of_one() {
  length::detail::step_prices out;
  for (int i = 0; i < 3; ++i) { out.time_plain(plain_step()); }
  return out;
}

TEST_CASE("a price that has grown old is not the new one's") {
  length::detail::step_prices prices = prices_of_one();
  const step_summary usual = drafting_step(1, 1, 0.1, 1.1);
  for (int i = 0; i < 15; ++i) { prices.time_draft(drafting_step(1, 5, 0.5, 3.0)); }
  CHECK(prices.rows().at(6.0) > 2.5);
  // Nothing is drafted as deep for long.
  for (int i = 0; i < 2500; ++i) { prices.time_draft(usual); }
  CHECK(prices.rows().at(6.0) < 1.3);
  // And then it takes what other steps would promise.
  prices.time_draft(drafting_step(1, 5, 0.5, 1.5));
  CHECK(prices.rows().at(6.0) == doctest::Approx(1.5).epsilon(0.1));
}

TEST_CASE("a price is what the time of a text is made of, without a step that was disturbed") {
  length::detail::step_prices prices = prices_of_one();
  for (int i = 0; i < 15; ++i) {
    prices.time_draft(drafting_step(1, 2, 0.2, i % 4 == 1 ? 1.8 : 1.2));
  }
  // Of fifteen steps four take 1.8: 1.36 on the mean, where most take 1.2.
  CHECK(prices.rows().at(3.0) == doctest::Approx(1.36).epsilon(0.03));
  const double before = prices.rows().at(3.0);
  prices.time_draft(drafting_step(1, 2, 0.2, 30.0));
  CHECK(prices.rows().at(3.0) == doctest::Approx(before).epsilon(0.03));
}

TEST_CASE("more rows than have prices take what the last of them do") {
  length::detail::step_prices prices = prices_of_one();
  step_summary tree = drafting_step(1, 4, 0.4, 2.0);
  tree.drafted = 100;
  for (int i = 0; i < 8; ++i) { prices.time_draft(tree); }
  CHECK(prices.of(tree) == doctest::Approx(2.4).epsilon(0.02));
  CHECK(prices.odd() == 0);
}

TEST_CASE("a batch in which most sequences copy is known, too") {
  length::detail::step_prices prices;
  for (int i = 0; i < 3; ++i) { prices.time_plain(plain_step(8)); }
  step_summary mixed = drafting_step(8, 1, 0.05, 1.1);
  mixed.computed = 3;
  for (int i = 0; i < 3; ++i) { prices.time_draft(mixed); }
  CHECK(prices.knows_drafts());
  CHECK(prices.of(mixed) == doctest::Approx(1.15).epsilon(0.02));
  // Deep drafts of a few say nothing of those that all share.
  length::detail::step_prices unknown;
  for (int i = 0; i < 3; ++i) { unknown.time_plain(plain_step(8)); }
  step_summary few = drafting_step(8, 4, 0.4, 1.1);
  few.levels = few.computed = few.drafted = 8;
  for (int i = 0; i < 3; ++i) { unknown.time_draft(few); }
  CHECK_FALSE(unknown.knows_drafts());
}

/// A meter that has seen drafts of one level which gain, in batches of so many.
void teach_gains(length::meter& meter, std::int32_t sequences) {
  for (int i = 0; i < 3; ++i) { meter.learn(plain_step(sequences)); }
  for (int i = 0; i < 40; ++i) {
    step_summary s = drafting_step(sequences, 1, 0.1, 1.1);
    s.accepted = sequences;
    s.emitted = 2 * sequences;
    meter.learn(s);
  }
}

TEST_CASE("a batch in which few sequences draft pays for what they read") {
  length::detail::step_prices prices = prices_of_one();
  for (int i = 0; i < 3; ++i) { prices.time_plain(plain_step(32)); }
  for (int i = 0; i < 8; ++i) { prices.time_draft(drafting_step(32, 1, 0.1, 1.1)); }
  step_summary few = drafting_step(32, 1, 1.7, 1.1);
  few.levels = few.computed = few.drafted = few.tested = 8;
  for (int i = 0; i < 3; ++i) { prices.time_draft(few); }
  CHECK(prices.of(few) > 2.0);
  // Of steps in which all of them draft that says nothing.
  CHECK(prices.of(drafting_step(32, 1, 0.1, 1.1)) == doctest::Approx(1.2).epsilon(0.05));
}

TEST_CASE("where every step reads a piece of a prompt drafting goes on") {
  length::meter meter(4);
  teach_gains(meter, 2);
  std::int32_t drafting = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::int32_t length = meter.next(2);
    drafting += length > 0 ? 1 : 0;
    step_summary s = length > 0 ? drafting_step(2, length, 0.1 * length, 1.5) : plain_step(2, 1.4);
    s.accepted = length > 0 ? 2 : 0;
    s.emitted = length > 0 ? 4 : 2;
    s.prompt_rows = 16;
    meter.observe(s);
  }
  // Times of such steps are no times of plain ones: there is nothing to be asked for again.
  CHECK(drafting > 1900);
}

TEST_CASE("a try for a batch ends, though one of its requests reads a prompt meanwhile") {
  length::meter meter(1);
  for (const std::int32_t sequences : {4, 5}) {
    // The first eight find caches as drafts have left them.
    for (int i = 0; i < 11; ++i) { meter.learn(plain_step(sequences)); }
    for (int i = 0; i < 40; ++i) { meter.learn(drafting_step(sequences, 1, 0.3, 1.1)); }
  }
  // Five are running, of which four decode: drafts lose.
  std::int32_t longest = 0;
  std::int32_t in_turn = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::int32_t length = meter.next(5);
    in_turn = length > 0 ? in_turn + 1 : 0;
    longest = std::max(longest, in_turn);
    step_summary s = length > 0 ? drafting_step(4, 1, 0.3, 1.1) : plain_step(4);
    s.prompt_rows = 16;
    meter.observe(s);
  }
  CHECK(longest > 0);
  CHECK(longest <= 16);
}

TEST_CASE("batches of two sizes in turn: what a draft leaves behind is that of one draft") {
  // One request gains by drafts, eight lose. After a draft eight plain steps take a tenth longer.
  const auto tries = [](bool in_turn) {
    length::meter meter(1);
    teach_gains(meter, 1);
    for (int i = 0; i < 11; ++i) { meter.learn(plain_step(8)); }
    for (int i = 0; i < 40; ++i) { meter.learn(drafting_step(8, 1, 0.3, 1.1)); }
    std::int32_t slow = 0;
    std::int32_t begun = 0;
    bool drafted = false;
    for (int turn = 0; turn < 4000; ++turn) {
      const std::int32_t sequences = in_turn && turn % 16 < 4 ? 1 : 8;
      const std::int32_t length = meter.next(sequences);
      step_summary s = length > 0 ? drafting_step(sequences, 1, 0.3, 1.1)
                                  : plain_step(sequences, slow > 0 ? 1.1 : 1.0);
      if (sequences == 1 && length > 0) {
        s.draft_seconds = 0.1;
        s.accepted = 1;
        s.emitted = 2;
      }
      slow = length > 0 ? 8 : std::max(slow - 1, 0);
      if (sequences == 8) {
        begun += length > 0 && !drafted ? 1 : 0;
        drafted = length > 0;
      }
      meter.observe(s);
    }
    return begun;
  };
  const std::int32_t alone = tries(false);
  CHECK(alone > 8);
  CHECK(tries(true) > alone / 2);
}

}  // namespace
}  // namespace hunch::test::prices_test

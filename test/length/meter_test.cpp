// SPDX-License-Identifier: Apache-2.0

// `length::meter` by a simulated clock: whether drafting stops where it loses, what that and the
// tries cost, whether the best length is found, and found again when the text changes. A machine
// here has costs that no price list names.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/length/cost.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include "../support/hash.hpp"

namespace hunch::test::meter_test {
namespace {

constexpr std::int32_t max_depth = 8;

/// What steps take, in plain steps of the same batch.
struct machine {
  std::string name;
  double level;           ///< of drafting a level
  double row;             ///< r(n) = 1 + row (n - 1)
  double overhead = 0.0;  ///< of a step that drafts, whatever it drafts
  double reading = 0.0;   ///< of each token that the drafter has not read, per sequence
  double noise = 0.05;
  /// Of a step that only begins to draft, as streams do after one without; 0: all steps draft.
  double warming = 0.0;
  /// Of a step that might have drafted and did not: streams that nobody drafts from.
  double idle = 0.0;
  /// Of a step after one that drafted, half as much of the second one, and so on: the caches are
  /// as the drafter has left them.
  double after = 0.0;
  /// Of a step that drafts after one that did not, half as much of the next one, and so on: the
  /// caches have nothing of the drafter.
  double cold = 0.0;
};

/// A draft token at a position of a sequence: whether it is accepted, and what is known of it.
struct drafted_token {
  bool accepted;
  double probability;
  bool ahead = false;
};
using drafter_model = std::function<drafted_token(std::int64_t step, dice&)>;

drafter_model constant(double acceptance) {
  return [=](std::int64_t, dice& random) {
    return drafted_token{random.unit() < acceptance, random.unit()};
  };
}

struct outcome {
  double tokens = 0.0;  ///< per sequence
  double time = 0.0;
  std::int64_t steps = 0;
  std::int64_t drafting = 0;                      ///< steps that drafted
  double speed() const { return tokens / time; }  ///< plain decoding has 1
};

/// A decoder of `batch` sequences without models.
template <LengthPolicy L>
class simulation {
 public:
  simulation(machine on, drafter_model drafts, std::int32_t batch, L policy,
             std::uint64_t seed = 17)
      : on_(on), drafts_(std::move(drafts)), policy_(policy), random_{seed} {
    resize(batch);
  }

  void resize(std::int32_t batch) { memories_.resize(static_cast<std::size_t>(batch)); }
  std::int32_t batch() const { return static_cast<std::int32_t>(memories_.size()); }

  /// One step of at most so many levels, `slowed` times as slow as it should be. With a prompt of
  /// so many tokens, all sequences begin in it; the step before has to have `ended` the ones
  /// before.
  step_summary step(std::int32_t draft_length, double slowed = 1.0, std::int32_t prompt = 0) {
    step_summary s;
    if constexpr (requires { policy_.refresh(); }) { policy_.refresh(); }
    if (prompt > 0) { missed_ = prompt; }
    s.prompt_rows = prompt * batch();
    s.draft_length = draft_length;
    s.sequences = batch();
    std::int32_t deepest = 0;
    std::int32_t deepest_computed = 0;
    const bool warms = on_.warming > 0.0 && draft_length > 0 && !warm_;
    warm_ = draft_length > 0;
    for (auto& memory : memories_) {
      std::int32_t levels = 0;
      std::int32_t accepted = 0;
      bool all = true;
      const std::int32_t limit =
          draft_length > 0 && !warms ? policy_.begin(memory, draft_length) : 0;
      drafted_token next = drafts_(at_, random_);
      length_evidence evidence;
      const auto continues = [&](double probability) {
        evidence.depth = levels;
        evidence.rows = levels + 1;
        evidence.probability = probability;
        evidence.ahead = next.ahead;
        evidence.drawn = !next.ahead;
        return policy_.continues(memory, evidence);
      };
      while (levels < limit && (!next.ahead || continues(next.probability))) {
        const double probability = next.probability;
        all = all && next.accepted;
        accepted += all ? 1 : 0;
        ++levels;
        next = drafts_(at_, random_);
        if (!next.ahead && levels < limit && !continues(probability)) { break; }
      }
      if (draft_length > 0 && !warms) { policy_.observe(memory, levels, accepted); }
      deepest = std::max(deepest, levels);
      s.levels += levels;
      const std::int32_t computed = next.ahead ? 0 : levels;
      deepest_computed = std::max(deepest_computed, computed);
      s.computed += computed;
      s.drafted += levels;
      s.tested += std::min(levels, accepted + 1);
      s.accepted += accepted;
      s.emitted += accepted + 1;
    }
    s.deepest = deepest;
    s.deepest_computed = deepest_computed;
    const double rows = static_cast<double>(s.drafted) / batch();
    const double disturbed = (1.0 + on_.noise * (random_.unit() - 0.5)) * slowed * second;
    s.draft_seconds = disturbed * on_.level * deepest_computed;
    if (s.levels > 0) {
      s.draft_seconds += disturbed * on_.reading * missed_;
      missed_ = 0.0;
    } else {
      missed_ += static_cast<double>(s.emitted) / batch();
    }
    left_ = s.levels > 0 ? 2.0 * on_.after : 0.5 * left_;
    cold_ = s.levels == 0 ? 2.0 * on_.cold : 0.5 * cold_;
    const double idle = draft_length > 0 && !warms && s.levels == 0 ? on_.idle : 0.0;
    s.target_seconds =
        disturbed * (1.0 + on_.row * rows + (s.levels > 0 ? on_.overhead + cold_ : left_) +
                     (warms ? on_.warming : 0.0) + idle + 0.2 * prompt);
    ++at_;
    sum_.tokens += static_cast<double>(s.emitted) / batch();
    sum_.time += s.seconds() / second;
    ++sum_.steps;
    sum_.drafting += s.levels > 0 ? 1 : 0;
    return s;
  }

  /// A step that reads prompts, and leaves the caches as a draft does.
  step_summary read_prompts() {
    left_ = 2.0 * on_.after;
    step_summary s;
    s.prompt_rows = 64 * batch();
    s.sequences = batch();
    s.emitted = batch();
    s.target_seconds = 20.0 * second;
    return s;
  }

  outcome take() { return std::exchange(sum_, {}); }

 private:
  static constexpr double second = 1e-3;

  machine on_;
  drafter_model drafts_;
  L policy_;
  std::vector<typename L::memory> memories_;
  dice random_;
  std::int64_t at_ = 0;
  double missed_ = 0.0;
  bool warm_ = false;
  double left_ = 0.0;  ///< what the last draft adds to a step that drafts nothing
  double cold_ = 0.0;  ///< what the last step without one adds to a step that drafts
  outcome sum_;
};

/// A simulation that a meter drives.
struct metered_run {
  metered_run(const machine& on, drafter_model drafts, std::int32_t batch, std::uint64_t seed = 17,
              const length::meter::options& o = {})
      : meter(max_depth, o), sim(on, std::move(drafts), batch, length::metered{meter}, seed) {}

  outcome steps(std::int32_t n, std::int32_t slow_step = -1) {
    for (std::int32_t i = 0; i < n; ++i) {
      meter.observe(sim.step(meter.next(sim.batch()), i == slow_step ? 100.0 : 1.0));
    }
    return sim.take();
  }

  length::meter meter;
  simulation<length::metered> sim;
};

double speed_of_fixed(const machine& on, const drafter_model& drafts, std::int32_t batch,
                      std::int32_t levels) {
  simulation<length::fixed> sim(on, drafts, batch, length::fixed{});
  for (std::int32_t i = 0; i < 4000 / batch; ++i) { sim.step(levels); }
  return sim.take().speed();
}

double best_fixed(const machine& on, const drafter_model& drafts, std::int32_t batch) {
  double best = 0.0;
  for (std::int32_t n = 0; n <= max_depth; ++n) {
    best = std::max(best, speed_of_fixed(on, drafts, batch, n));
  }
  return best;
}

/// Machines on which drafts of these acceptances lose, whatever their length.
const std::vector<machine> losing{{"rows are dear", 0.1, 0.9},
                                  {"drafts are dear", 1.1, 0.05},
                                  {"what lies between is dear", 0.1, 0.1, 1.2},
                                  {"a little dear", 0.3, 0.3, 0.1}};

TEST_CASE("where every length loses drafting ends, and at most 3 % are lost") {
  for (const machine& on : losing) {
    for (const double acceptance : {0.0, 0.2, 0.35}) {
      for (const std::int32_t batch : {1, 2, 8, 32}) {
        CAPTURE(on.name);
        CAPTURE(acceptance);
        CAPTURE(batch);
        metered_run run(on, constant(acceptance), batch);
        REQUIRE(best_fixed(on, constant(acceptance), batch) < 1.01);
        const outcome first = run.steps(200);
        CHECK(first.speed() > 0.97);
        CHECK(first.drafting < 40);
        const outcome later = run.steps(2000);
        CHECK(later.speed() > 0.985);
        CHECK(later.drafting < 200);
      }
    }
  }
}

TEST_CASE("what a draft leaves to the steps after it is paid for as the draft is") {
  for (const double acceptance : {0.2, 0.35, 0.45}) {
    CAPTURE(acceptance);
    const machine on{"a processor", 0.2, 0.4, 0.0, 0.0, 0.05, 0.0, 0.8};
    metered_run run(on, constant(acceptance), 1);
    run.steps(200);
    CHECK(run.steps(4000).speed() > 0.985);
  }
}

TEST_CASE("first drafts find cold caches: what they take longer is no price of the others") {
  // Two cold steps lose wherever they are tried, and the ones after them gain. Probabilities say
  // nothing of the tokens here, which a policy has to find out. One run is a matter of luck.
  constexpr int seeds = 40;
  for (const double acceptance : {0.6, 0.75}) {
    CAPTURE(acceptance);
    const machine on{"a processor", 0.2, 0.15, 0.0, 0.0, 0.05, 0.0, 0.0, 0.3, 0.8};
    const double best = best_fixed(on, constant(acceptance), 1);
    REQUIRE(best > 1.15);
    double mean = 0.0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      metered_run run(on, constant(acceptance), 1, seed);
      run.steps(200);
      mean += run.steps(2000).speed() / seeds;
    }
    CHECK(mean > 0.94 * best);
    // A text that turns hard ends drafting, and one that turns easy begins it again.
    const auto turns = [=](std::int64_t step, dice& random) {
      return drafted_token{random.unit() < (step / 600 % 2 == 0 ? acceptance : 0.05),
                           random.unit()};
    };
    double easy = 0.0;
    double hard = 0.0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      metered_run other(on, turns, 1, seed);
      other.steps(1200);
      easy += other.steps(600).speed() / seeds;
      hard += other.steps(600).speed() / seeds;
    }
    CHECK(easy > 1.0 + 0.5 * (best - 1.0));
    CHECK(hard > 0.95);
  }
  // Where the later ones lose, too, tries are as dear as they are.
  const machine dear{"a processor", 0.3, 0.4, 0.0, 0.0, 0.05, 0.0, 0.0, 0.3, 0.8};
  metered_run run(dear, constant(0.3), 1);
  run.steps(200);
  CHECK(run.steps(4000).speed() > 0.985);
}

TEST_CASE("plain steps after a prompt are slow and no price: a new meter is not misled") {
  // Drafting loses 5 % against plain steps, and would win against those after a prompt.
  const machine on{"a processor", 0.05, 0.4, 0.0, 0.0, 0.05, 0.0, 0.6};
  for (const double acceptance : {0.34, 0.36, 0.38}) {
    CAPTURE(acceptance);
    metered_run run(on, constant(acceptance), 1);
    run.meter.observe(run.sim.read_prompts());
    CHECK(run.steps(256).speed() > 0.97);
  }
}

TEST_CASE("where prompts come all the time, drafting is tried for all that") {
  const machine on{"a processor", 0.1, 0.1};
  metered_run run(on, constant(0.8), 2);
  for (int i = 0; i < 100; ++i) {
    run.meter.observe(run.sim.read_prompts());
    run.steps(3);
  }
  CHECK(run.meter.prices(2).draft > 0.0);
}

TEST_CASE("the same machines and a price list that does not name everything: it loses for ever") {
  const machine on = losing[2];
  const std::vector<double> rows{1.0, 1.1};
  simulation<length::cost> sim(on, constant(0.35), 8,
                               length::cost{.draft = on.level, .rows = rows});
  for (std::int32_t i = 0; i < 1000; ++i) { sim.step(max_depth); }
  CHECK(sim.take().speed() < 0.85);
}

TEST_CASE("where drafting wins, it is soon nearly as fast as by the best length of all") {
  const std::vector<machine> winning{{"a GPU", 0.04, 0.01},
                                     {"a processor", 0.15, 0.12},
                                     {"a dear draft", 0.3, 0.05},
                                     {"a dear beginning", 0.05, 0.05, 0.4}};
  for (const machine& on : winning) {
    for (const double acceptance : {0.6, 0.8, 0.95}) {
      for (const std::int32_t batch : {1, 4, 32}) {
        const double best = best_fixed(on, constant(acceptance), batch);
        if (best < 1.1) { continue; }
        CAPTURE(on.name);
        CAPTURE(acceptance);
        CAPTURE(batch);
        metered_run run(on, constant(acceptance), batch);
        run.steps(150);
        CHECK(run.steps(2000).speed() > 0.92 * best);
      }
    }
  }
}

/// Shows the meter steps without drafts, and with such of 1 to 8 levels.
void know_costs(metered_run& run) {
  for (std::int32_t i = 0; i < 48; ++i) {
    constexpr std::array<std::int32_t, 12> lengths{0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 4, 8};
    run.meter.learn(run.sim.step(lengths[static_cast<std::size_t>(i) % lengths.size()]));
  }
  run.sim.take();
}

/// Of 400 beginnings after which costs are known, how many make their first 300 steps hardly faster
/// than plain ones.
int without_drafts(const machine& on, double acceptance, const length::meter::options& o) {
  int out = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    metered_run run(on, constant(acceptance), 1, seed, o);
    know_costs(run);
    out += run.steps(300).speed() < 1.05 ? 1 : 0;
  }
  return out;
}

TEST_CASE("bad luck with the first drafts does not end drafting where it wins") {
  // The drafter reads what it has missed, so that a try
  // becomes dearer with every step without one.
  const std::vector<machine> winning{{"a copy in four bits", 0.3, 0.06, 0.0, 0.05},
                                     {"a small model", 0.15, 0.15, 0.0, 0.02}};
  for (const machine& on : winning) {
    CAPTURE(on.name);
    REQUIRE(best_fixed(on, constant(0.88), 1) > 1.5);
    const int unlucky = without_drafts(on, 0.88, {});
    CAPTURE(unlucky);
    CHECK(unlucky <= 8);
  }
}

/// Tokens per time, prompts included, of requests one after the other: of `tokens` after prompts
/// of 100. A step that reads a prompt takes 21 plain ones, without the drafter's reading.
template <class Sim, class Next, class Observe>
double speed_of_requests(Sim& sim, std::int32_t tokens, std::int32_t requests, const Next& next,
                         const Observe& observe) {
  for (std::int32_t request = 0; request < requests; ++request) {
    std::int64_t emitted = 0;
    while (emitted < tokens) {
      step_summary s = sim.step(next(), 1.0, emitted == 0 ? 100 : 0);
      emitted += s.emitted;
      s.finished = emitted < tokens ? 0 : 1;
      observe(s);
    }
  }
  return sim.take().speed();
}

double speed_of_plain_requests(const machine& on, const drafter_model& drafts,
                               std::int32_t tokens) {
  simulation<length::fixed> sim(on, drafts, 1, length::fixed{});
  return speed_of_requests(
      sim, tokens, 100, [] { return 0; }, [](const step_summary&) {});
}

TEST_CASE(
    "where drafts gain little or lose little: near the best length, and near plain decoding") {
  const machine on{"a small cache", 0.15, 0.2, 0.1, 0.02, 0.1, 0.0, 0.0, 0.3};
  constexpr int seeds = 40;
  for (const double acceptance : {0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8}) {
    CAPTURE(acceptance);
    const double best = best_fixed(on, constant(acceptance), 1);
    double mean = 0.0;
    double least = best;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      metered_run run(on, constant(acceptance), 1, seed);
      know_costs(run);
      run.steps(60);
      const double speed = run.steps(600).speed();
      mean += speed / seeds;
      least = std::min(least, speed);
    }
    CHECK(mean > 0.97 * std::max(best, 1.0));
    CHECK(least > 0.97);
  }
}

TEST_CASE("what was tried in vain is tried again: no text ends drafting for those after it") {
  // A hundred hard texts, and easy ones after them; the drafter reads what it has missed.
  const machine on{"a model that drafts", 0.15, 0.12, 0.1, 0.05};
  const auto comes_back = [&](std::uint64_t seed, const length::meter::options& o) {
    bool easy = false;
    const drafter_model drafts = [&easy](std::int64_t, dice& random) {
      return drafted_token{random.unit() < (easy ? 0.85 : 0.1), random.unit()};
    };
    metered_run run(on, drafts, 1, seed, o);
    const auto requests = [&](std::int32_t count) {
      return speed_of_requests(
          run.sim, 96, count, [&] { return run.meter.next(1); },
          [&](const step_summary& s) { run.meter.observe(s); });
    };
    requests(100);
    easy = true;
    requests(40);
    return requests(40) > 1.2 * speed_of_plain_requests(on, drafts, 96);
  };
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    CAPTURE(seed);
    CHECK(comes_back(seed, {}));
    CHECK_FALSE(comes_back(seed, {.share = 0.0}));
  }
}

TEST_CASE("a text that begins to repeat is drafted again: of a copy its match is known ahead") {
  // Single tokens match by chance and are not continued; then the text has a period.
  const drafter_model copies = [](std::int64_t step, dice& random) {
    return step < 3000 ? drafted_token{random.unit() < 0.05, 0.25, true}
                       : drafted_token{true, 1.0, true};
  };
  const machine on{"a processor", 0.0, 0.2};
  metered_run run(on, copies, 1);
  CHECK(run.steps(3000).speed() > 0.98);
  CHECK(run.steps(100).speed() > 0.5 * 9.0 / 2.6);
  CHECK(run.steps(500).speed() > 0.9 * 9.0 / 2.6);
}

TEST_CASE("a text that becomes easy is drafted again, and one that becomes hard no more") {
  for (const std::int32_t batch : {1, 8}) {
    CAPTURE(batch);
    const drafter_model changing = [](std::int64_t step, dice& random) {
      return drafted_token{random.unit() < (step / 2000 % 2 == 0 ? 0.1 : 0.9), random.unit()};
    };
    const machine on{"a processor", 0.15, 0.12};
    const double easy = best_fixed(on, constant(0.9), batch);
    metered_run run(on, changing, batch);
    for (int turn = 0; turn < 3; ++turn) {
      CAPTURE(turn);
      CHECK(run.steps(2000).speed() > 0.97);
      run.steps(300);
      CHECK(run.steps(1700).speed() > 0.95 * easy);
    }
  }
}

TEST_CASE("one step that takes a hundred times as long decides nothing") {
  const machine on{"a processor", 0.15, 0.12};
  const double best = best_fixed(on, constant(0.8), 4);
  for (const std::int32_t slow : {0, 1, 3, 4, 5, 6, 7, 8, 20, 35, 60, 61, 62, 63, 64, 65, 66, 67}) {
    CAPTURE(slow);
    metered_run run(on, constant(0.8), 4);
    run.steps(150, slow);
    CHECK(run.steps(500).speed() > 0.92 * best);
    metered_run loses(losing[3], constant(0.2), 4);
    loses.steps(150, slow);
    CHECK(loses.steps(500).speed() > 0.97);
  }
}

/// Of 200 runs on a machine on which every twelfth step or so takes seven times as long, for others
/// have taken its time: how many draft in most of their later steps. What drafting costs is known
/// before, as in `without_drafts`.
int drafting_beside_others(const machine& on, double acceptance) {
  int out = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    metered_run run(on, constant(acceptance), 1, seed);
    know_costs(run);
    dice others{1000 + seed};
    std::int64_t drafting = 0;
    for (std::int32_t i = 0; i < 500; ++i) {
      const step_summary s =
          run.sim.step(run.meter.next(1), others.unit() < 1.0 / 12.0 ? 7.0 : 1.0);
      drafting += i >= 100 && s.levels > 0 ? 1 : 0;
      run.meter.observe(s);
    }
    out += drafting > 200 ? 1 : 0;
  }
  return out;
}

TEST_CASE("steps whose time others have taken do not end drafting, nor begin it") {
  CHECK(drafting_beside_others({"a processor", 0.1, 0.15}, 0.85) >= 190);
  CHECK(drafting_beside_others(losing[0], 0.35) <= 4);
  CHECK(drafting_beside_others(losing[3], 0.35) <= 4);
}

TEST_CASE("a machine that becomes faster for plain steps only is noticed") {
  // Rows are free while a neighbour takes the memory, say; then they are what they were.
  const machine busy{"busy", 0.02, 0.02};
  metered_run run(busy, constant(0.4), 2);
  CHECK(run.steps(400).speed() > 1.2);
  // The same seconds of a step that drafts are now those of a step on a machine twice as fast.
  simulation<length::metered> free({"free", 0.6, 0.6}, constant(0.4), 2,
                                   length::metered{run.meter});
  outcome all;
  for (std::int32_t i = 0; i < 800; ++i) {
    run.meter.observe(free.step(run.meter.next(2), 0.5));
    if (i == 399) { all = free.take(); }
  }
  CHECK(all.speed() > 0.85 * 2.0);
  CHECK(free.take().speed() > 0.97 * 2.0);
}

TEST_CASE(
    "plain steps that were slow when they were timed do not make drafts look cheap for long") {
  // Drafts of a level take three times a plain step and bring 1.3 tokens.
  const machine on{"dear", 0.2, 1.7, 0.1};
  for (const std::int32_t batch : {1, 32}) {
    CAPTURE(batch);
    metered_run run(on, constant(0.3), batch);
    // Others slow down the machine as the first plain steps are timed.
    for (std::int32_t i = 0; i < 3; ++i) {
      run.meter.observe(run.sim.step(run.meter.next(batch), 3.0));
    }
    run.sim.take();
    const outcome after = run.steps(200);
    CHECK(after.drafting < 20);
    CHECK(after.speed() > 0.85);
  }
}

TEST_CASE("where drafts gain, what is spent on checking prices is little") {
  const machine on{"cheap", 0.1, 0.1};
  metered_run run(on, constant(0.8), 1);
  run.steps(20);
  CHECK(run.steps(140).drafting >= 140 - 4 - length::meter::untimed_after_draft - 1);
}

TEST_CASE("a drafter that would have to read what it missed is tried as rarely as that costs") {
  for (const double reading : {0.005, 0.05, 0.1}) {
    CAPTURE(reading);
    machine on = losing[0];
    on.reading = reading;
    metered_run run(on, constant(0.2), 4);
    CHECK(run.steps(300).speed() > 0.97);
    const outcome later = run.steps(4000);
    CHECK(later.speed() > 0.98);
    if (reading > 0.01) { CHECK(later.drafting < 10); }
  }
}

double speed_of_metered_requests(const machine& on, const drafter_model& drafts,
                                 std::int32_t tokens) {
  metered_run run(on, drafts, 1);
  const auto all = [&] {
    return speed_of_requests(
        run.sim, tokens, 100, [&] { return run.meter.next(1); },
        [&](const step_summary& s) { run.meter.observe(s); });
  };
  all();  // which it learns from
  return all();
}

TEST_CASE("a try beside a prompt pays for what the drafter reads of it") {
  for (const double reading : {0.02, 0.1, 0.2}) {
    CAPTURE(reading);
    machine on = losing[0];
    on.reading = reading;
    const drafter_model drafts = constant(0.2);
    CHECK(speed_of_metered_requests(on, drafts, 96) >
          0.985 * speed_of_plain_requests(on, drafts, 96));
  }
}

/// Of 200 beginnings after which costs are known, how many write a dozen short requests hardly
/// faster than plain ones.
int slow_requests(const machine& on, double acceptance, const length::meter::options& o) {
  const double plain = speed_of_plain_requests(on, constant(acceptance), 96);
  int out = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    metered_run run(on, constant(acceptance), 1, seed, o);
    know_costs(run);
    const double speed = speed_of_requests(
        run.sim, 96, 12, [&] { return run.meter.next(1); },
        [&](const step_summary& s) { run.meter.observe(s); });
    out += speed < 1.05 * plain ? 1 : 0;
  }
  return out;
}

TEST_CASE("short requests whose prompts a dear drafter reads are drafted from the first one on") {
  // What a prompt takes is paid back by drafts of several levels; one of a single level, which is
  // all that a small account can lose, gains next to nothing.
  const machine on{"a copy in four bits, on a small cache", 0.42, 0.09, 0.25, 0.085};
  const int slow = slow_requests(on, 0.95, {});
  CAPTURE(slow);
  CHECK(slow <= 10);
}

TEST_CASE("reading prompts is paid from what drafting gains after them") {
  // The drafter reads a prompt in 20 plain steps. It makes each step 1.7 times as fast as a plain
  // one: too little for answers of 20 tokens, and enough for such of 400.
  const machine on{"a model that drafts", 0.15, 0.12, 0.0, 0.2};
  const drafter_model drafts = constant(0.8);
  CHECK(speed_of_metered_requests(on, drafts, 20) >
        0.985 * speed_of_plain_requests(on, drafts, 20));
  CHECK(speed_of_metered_requests(on, drafts, 400) >
        1.4 * speed_of_plain_requests(on, drafts, 400));
}

TEST_CASE("what a drafter has missed of requests that have ended it need not read") {
  for (const bool ended : {false, true}) {
    machine on = losing[0];
    on.reading = 0.1;
    metered_run run(on, constant(0.2), 1);
    run.steps(3000);
    // As if the request were followed by others, whose texts are easy.
    step_summary last;
    last.sequences = 1;
    last.finished = ended ? 1 : 0;
    last.emitted = 1;
    last.target_seconds = 1e-3;
    run.meter.observe(last);
    std::int32_t steps = 0;
    while (steps < 500 && run.meter.next(1) == 0) {
      last.finished = 0;
      run.meter.observe(last);
      ++steps;
    }
    CHECK((steps < 100) == ended);
  }
}

TEST_CASE("a drafter that drafts in the second step only is tried until that one") {
  // Without a try that goes on, drafting would never be seen again once the text is easy.
  machine streams{"streams", 0.02, 0.1};
  streams.warming = 0.3;
  const auto begins_to_repeat = [](std::int64_t step, dice& random) {
    return drafted_token{random.unit() < (step < 1500 ? 0.0 : 0.9), random.unit()};
  };
  metered_run run(streams, begins_to_repeat, 1);
  CHECK(run.steps(1500).speed() > 0.96);
  run.steps(1500);
  CHECK(run.steps(1000).speed() > 1.8);
}

TEST_CASE("what steps cost that might have drafted and did not is paid for") {
  // One draft in twenty is sure to be accepted, and the others are known not to be.
  const auto seldom = [](std::int64_t, dice& random) {
    const bool sure = random.unit() < 0.05;
    return drafted_token{sure, sure ? 0.95 : 0.02, true};
  };
  for (const double cost : {0.0, 0.1, 0.2, 0.5}) {
    CAPTURE(cost);
    machine streams{"streams", 0.02, 0.1};
    streams.idle = cost;
    metered_run run(streams, seldom, 1);
    run.steps(500);
    const outcome found = run.steps(4000);
    // Where nothing is paid, drafts gain; and they would lose as much as that costs.
    CHECK(found.speed() > (cost == 0.0 ? 1.015 : 0.97));
    CHECK(found.drafting > 0);
  }
}

/// A step of a request by drafters in turn, in units of a plain step: of so many levels, copied or
/// computed, each of which costs a quarter; a row costs a tenth, and so does each that a model
/// reads of what it has missed.
step_summary turn(std::int32_t levels, bool copied, std::int32_t missed = 0,
                  std::int32_t prompt = 0) {
  constexpr double one = 1e-3;
  step_summary s;
  s.draft_length = 8;
  s.sequences = 1;
  s.prompt_rows = prompt;
  s.deepest = levels;
  s.levels = s.tested = s.drafted = s.accepted = levels;
  s.emitted = levels + 1;
  s.deepest_computed = copied ? 0 : levels;
  s.computed = s.deepest_computed;
  s.draft_seconds = one * (0.25 * s.deepest_computed + 0.1 * missed);
  s.target_seconds = one * (1.0 + 0.1 * levels + 0.2 * prompt);
  return s;
}
step_summary plain_turn() {
  step_summary s;
  s.sequences = 1;
  s.emitted = 1;
  s.target_seconds = 1e-3;
  return s;
}

TEST_CASE(
    "copied levels have the price of their rows, and those of a model are priced beside them") {
  length::meter meter(8);
  for (int i = 0; i < 20; ++i) { meter.learn(plain_turn()); }
  meter.learn(turn(3, false, 20));
  for (int i = 0; i < 40; ++i) {
    meter.learn(turn(3, false));
    meter.learn(turn(5, false));
    meter.learn(turn(5, true));
    // What a model has missed is read, and is not the price of a level.
    meter.learn(turn(3, false, 6));
  }
  CHECK(meter.prices(1).draft == doctest::Approx(0.25).epsilon(0.02));
  CHECK(meter.prices(1).rows.at(6) == doctest::Approx(1.5).epsilon(0.02));
  CHECK(meter.expected_seconds(turn(5, true)) == doctest::Approx(1.5e-3).epsilon(0.02));
  CHECK(meter.expected_seconds(turn(5, false)) == doctest::Approx(2.75e-3).epsilon(0.02));
  // After copies, the reading besides.
  meter.learn(turn(5, true));
  meter.learn(turn(3, true));
  CHECK(meter.expected_seconds(turn(5, false)) == doctest::Approx(3.75e-3).epsilon(0.02));
}

TEST_CASE("a drafter that copies alone is known by its steps") {
  length::meter meter(8);
  for (int i = 0; i < 200; ++i) { meter.observe(meter.next(1) > 0 ? turn(4, true) : plain_turn()); }
  CHECK(meter.prices(1).draft == 0.0);
  std::int32_t drafting = 0;
  for (int i = 0; i < 100; ++i) {
    const bool drafts = meter.next(1) > 0;
    drafting += drafts ? 1 : 0;
    meter.observe(drafts ? turn(4, true) : plain_turn());
  }
  CHECK(drafting >= 95);
}

TEST_CASE("a copy stands in the way of a pass of the drafter, not of an average step") {
  length::meter meter(4);
  for (int step = 0; step < 12; ++step) {
    meter.next(1);
    meter.observe({.sequences = 1, .emitted = 1, .target_seconds = 1.0});
  }
  const auto drafts = [&](std::int32_t computed, std::int64_t emitted, double seconds) {
    const std::int32_t length = meter.next(1);
    meter.observe({.draft_length = std::max(length, 4),
                   .sequences = 1,
                   .deepest = 4,
                   .levels = 4,
                   .deepest_computed = computed,
                   .computed = computed,
                   .tested = 4,
                   .accepted = emitted - 1,
                   .drafted = 4,
                   .emitted = emitted,
                   .draft_seconds = 0.15 * computed,
                   .target_seconds = seconds});
  };
  for (int step = 0; step < 24; ++step) {
    drafts(0, 5, 1.2);
    drafts(4, 3, 1.2);
  }
  REQUIRE(meter.next(1) > 0);
  // 3 tokens for 1.2 + 4 * 0.15; with the copies it would be 8 for 3.
  CHECK(meter.policy().rival == doctest::Approx(3.0 / 1.8).epsilon(0.03));
}

TEST_CASE("a prompt that was read beside a copy is not read again") {
  length::meter meter(8);
  for (int i = 0; i < 20; ++i) { meter.observe(plain_turn()); }
  for (int i = 0; i < 66; ++i) {
    meter.next(1);
    // Copies, and what the model has missed of them: a few rows at a time, which are dear.
    meter.observe(turn(2, true));
    meter.next(1);
    step_summary reads = turn(4, false);
    reads.draft_seconds += 0.9e-3;
    meter.observe(reads);
  }
  step_summary last = turn(4, false);
  last.finished = 1;
  meter.observe(last);
  for (int request = 0; request < 3; ++request) {
    REQUIRE(meter.next(1) > 0);
    meter.observe(turn(8, true, 100, 100));
    for (int i = 0; i < 10; ++i) {
      CHECK(meter.next(1) > 0);
      step_summary s = turn(4, i % 2 == 0);
      s.finished = i == 9 ? 1 : 0;
      meter.observe(s);
    }
  }
}

TEST_CASE("drafts beside a prompt that is read in pieces are paid for") {
  for (const bool measured : {false, true}) {
    CAPTURE(measured);
    metered_run run(losing[0], constant(0.0), 4);
    run.steps(measured ? 600 : 3);
    std::int32_t drafting = 0;
    for (std::int32_t i = 0; i < 200; ++i) {
      step_summary s = run.sim.step(run.meter.next(4));
      drafting += s.levels > 0 ? 1 : 0;
      s.prompt_rows = 256;
      s.target_seconds *= 40.0;
      run.meter.observe(s);
    }
    CHECK(drafting < 10);
  }
}

TEST_CASE("requests that come and go do not keep a batch from drafting") {
  metered_run run({"a processor", 0.1, 0.05}, constant(0.8), 8);
  run.steps(200);
  std::int64_t drafting = 0;
  for (std::int32_t i = 0; i < 100; ++i) {
    run.sim.resize(7 + i % 2);
    drafting += run.steps(8).drafting;
  }
  CHECK(drafting > 0.8 * 8 * 100);
}

TEST_CASE("what is known of a large batch says nothing of a small one") {
  // Rows are dear in a large batch only.
  metered_run large(losing[0], constant(0.8), 32);
  CHECK(large.steps(500).speed() < 1.01);
  CHECK(large.steps(200).drafting < 20);
  simulation<length::metered> small({"a processor", 0.15, 0.12}, constant(0.8), 1,
                                    length::metered{large.meter});
  for (std::int32_t i = 0; i < 200; ++i) {
    if (i == 100) { small.take(); }
    large.meter.observe(small.step(large.meter.next(1)));
  }
  CHECK(small.take().speed() > 1.3);
}

TEST_CASE("steps that only read prompts are no prices, and nothing is drafted before plain steps") {
  length::meter meter{max_depth};
  step_summary reads;
  reads.prompt_rows = 256;
  reads.target_seconds = 1.0;
  meter.observe(reads);
  reads.sequences = 1;
  reads.emitted = 1;
  meter.observe(reads);
  step_summary plain;
  plain.sequences = 1;
  plain.emitted = 1;
  plain.target_seconds = 1e-3;
  // Four steps find the caches as the prompt has left them, three are timed.
  for (int i = 0; i < 4 + 3; ++i) {
    CHECK(meter.next(1) == 0);
    meter.observe(plain);
  }
  CHECK(meter.next(1) == 1);
  step_summary drafts = plain;
  drafts.draft_length = 1;
  drafts.deepest = drafts.deepest_computed = 1;
  drafts.levels = drafts.computed = drafts.tested = drafts.drafted = drafts.accepted = 1;
  drafts.emitted = 2;
  drafts.draft_seconds = 2e-4;
  drafts.target_seconds = 1.1e-3;
  step_summary late = drafts;  // it reads the prompt, too
  late.draft_seconds = 0.1;
  meter.observe(late);
  CHECK(meter.prices(1).draft == 0.0);
  CHECK(meter.next(1) == 1);
  meter.observe(drafts);
  CHECK(meter.prices(1).draft == doctest::Approx(0.2));
  meter.observe(drafts);
  CHECK(meter.prices(1).rows.at(2) == doctest::Approx(1.1));
  // When that has paid for the prompt: twice as deep as what has been measured, and no deeper.
  for (int i = 0; i < 16; ++i) { meter.observe(drafts); }
  CHECK(meter.next(1) == 0);  // a plain one, to check its price
  meter.observe(plain);
  CHECK(meter.next(1) == 2);
}

}  // namespace
}  // namespace hunch::test::meter_test

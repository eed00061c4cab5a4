// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/detail/findings.hpp>
#include <hunch/length/detail/recent.hpp>
#include <hunch/length/detail/step_prices.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch::length {

/// Learns from the steps of a decoder what drafting costs and brings, and lets it draft where that
/// is faster than plain decoding: `next` before a step is the draft length to set, `observe` takes
/// `decoder::last_step` after it. The policy of the drafter is `metered`, or any other.
///
/// **Prices** are those of `detail::step_prices`, by the clock, for batches of up to 1, 2, 4, 8,
/// ... requests each.
///
/// What was measured against a plain step that was disturbed makes every draft look cheap. So after
/// 8, 16, 32, ... steps that may draft one does not: where it takes much less than a plain step is
/// priced at, that price is wrong, and is measured again.
///
/// **What a draft brings** is what steps that might have drafted emitted, recent ones for more, at
/// first what the acceptance of all drafts promises. Both are counted in plain steps: a step that
/// emits more tokens per sequence than its price gains.
///
/// **Whether to draft.** While that gains, all steps draft, as deep as pays by `cost`. What it
/// takes to begin is an investment: a drafter with a cache reads a prompt, and what it has missed
/// while nothing was drafted, the first drafts find caches that have nothing of the drafter, and
/// the last one leaves caches that slow the plain steps after it down. It is made if what a request
/// gains in the steps that it lasts on the mean pays for it.
///
/// **Tries.** Where drafting loses, nothing is learnt without it. So a `share` of the time is put
/// aside, and when it has grown to what a try is expected to lose, times a number that is drawn
/// from [0.5, 1.5), the next few steps draft: of what loses little much is tried, and of what loses
/// much hardly anything, so that no mistake is for ever, and none costs more than that share. A
/// drafter that has much of a text to catch up with waits for the next request.
/// Tries are drawn, not regular, since a text may be.
///
/// Steps are booked at their prices, not at what a clock says of them alone: one that was disturbed
/// decides nothing. Those in which prompts are read are not timed: where all of them are from the
/// beginning, as in pieces that are never out of work, there are no prices and nothing is drafted;
/// `learn` takes those of a run before. What is decided for a step
/// depends on earlier steps alone: any law stays as it is. But it depends on the clock: see
/// `decoder::draft_length` for how a text is repeated.
class meter {
 public:
  /// Plain steps that are not timed, for they find caches that a drafter has left: after one that
  /// drafted, or might have; and after a prompt.
  static constexpr std::int32_t untimed_after_draft = 8;
  static constexpr std::int32_t untimed_after_prompt = 4;
  /// Drafting steps after plain ones, likewise, once prices are known.
  static constexpr std::int32_t untimed_after_plain = 2;

  struct options {
    double share = 0.0075;      ///< of the time, for tries
    double most = 8.0;          ///< plain steps that are put aside, if a try does not take more
    double credit = 1.75;       ///< of these at the beginning
    double tolerated = 0.01;    ///< of a step: a loss that is no reason to stop
    std::int32_t refresh = 96;  ///< steps that may draft before a plain one is timed again
    double expected = 0.7;      ///< acceptance before anything is known
    std::uint64_t seed = 0;     ///< of what is drawn
  };

  /// \param max_depth levels that the drafter can draft; below 1: none.
  explicit meter(std::int32_t max_depth) : meter(max_depth, options{}) {}
  meter(std::int32_t max_depth, const options& o)
      : options_(o), max_depth_(max_depth), random_(o.seed) {
    accepted_ = {known, known * o.expected};
    for (batch& b : batches_) { b.saved = o.credit; }
    threshold_ = draw();
  }

  /// Neither copied nor moved: policies refer to it.
  meter(const meter&) = delete;
  meter& operator=(const meter&) = delete;

  /// Levels that the next step may draft, for `running` requests, to be set as
  /// `decoder::draft_length`: 0 is plain decoding.
  std::int32_t next(std::int32_t running) {
    asked_ = index(running);
    batch& b = batches_[asked_];
    checks_ = false;
    if (max_depth_ < 1 || wants_plain(b, running)) { return 0; }
    checks_ = b.drafts && b.trying == 0 && b.until_check <= 0;
    if (checks_) {
      put_off_check(b);
      return 0;
    }
    std::int32_t reach = std::clamp(2 * b.prices.deepest(), std::int32_t{1}, max_depth_);
    policy_ = prices(running);
    policy_.rival = rate_of_passes(b, reach);
    if (!allows(b, running, reach)) { return 0; }
    if (b.trying > 0) { reach = std::min(reach, b.try_levels); }
    const std::int32_t common = common_length(reach);
    const bool explores = b.trying == 0 && explores_now(b);
    if (running > 1) {
      // Sequences of a batch share the passes of a drafter: what one tries all pay for.
      policy_.shares_passes = true;
      policy_.at_least = b.trying > 0 || explores || !b.prices.knows_drafts() ? 1 : 0;
      return std::min(reach, common);
    }
    policy_.at_least = 1;
    if (!explores) { return reach; }
    // Lengths that are not drafted are not priced again. Longer and shorter ones in turn.
    b.longer = !b.longer;
    policy_.at_least = b.longer ? std::min(common + 1, reach) : 1;
    return b.longer ? reach : std::max(std::min(common - 1, reach), 1);
  }

  /// Takes note of a step whose draft length `next` has chosen.
  void observe(const step_summary& s) {
    // What was decided for so many requests is booked there, though some of them may have read
    // prompts.
    batch& b = batches_[asked_];
    const bool known_before = b.prices.knows_drafts();
    learn(s);
    if (s.sequences < 1) { return; }
    if (b.prices.plain() <= 0.0) { return; }
    if (s.levels == 0) {
      b.saved = std::min(b.saved + options_.share, std::max(options_.most, b.price));
    }
    b.drafts = s.draft_length > 0 || checks_;
    if (s.draft_length > 0) {
      if (b.prices.times_drafts()) { book(b, s); }
      if (!known_before) { b.saved -= s.levels > 0 ? unknown : idle_cost(b) - 1.0; }
    } else {
      b.found.fade(fading);
    }
    if (b.trying > 0 && --b.trying == 0) {
      b.gained = b.tried > 0.0;
      b.tried = 0.0;
    }
  }

  /// Learns prices and acceptance from a step, whatever chose its draft length.
  void learn(const step_summary& s) {
    note_reading(s);
    reread_ = 0.0;
    if (s.prompt_rows > 0) { note_prompts(); }
    if (s.sequences < 1) { return; }
    batch& b = of(s.sequences);
    if (s.prompt_rows > 0) { return; }
    if (s.draft_length > 0) {
      ++b.since_plain;
      --b.until_check;
    }
    const bool drafted_before = untimed_ > 0;
    if (untimed_ == untimed_after_draft) { begin_aftermath(b); }
    const bool settled = is_settled();
    const bool timed = settled && untimed_ == 0 && after_idle_ == 0;
    untimed_ = s.levels > 0 ? untimed_after_draft : std::max(untimed_ - 1, 0);
    after_idle_ = s.draft_length > 0 ? untimed_after_draft : std::max(after_idle_ - 1, 0);
    after_prompt_ = std::max(after_prompt_ - 1, 0);
    const double one = b.prices.plain();
    const bool began = s.levels > 0 && cold_ > 0 && b.prices.knows_drafts();
    reread_ = cold_ > 0 ? 0.0 : late_;
    if (began) { note_beginning(b, s.seconds() / one - b.prices.of(s)); }
    cold_ = s.levels > 0 ? std::max(cold_ - 1, 0) : untimed_after_plain;
    if (s.draft_length == 0) {
      if (timed) {
        if (b.prices.time_plain(s)) {
          b.found = {};
          b.until_check = b.between_checks = first_check;
        }
        b.since_plain = 0;
      } else if (checks_ && b.prices.refuted_by(s)) {
        b.prices.forget();
        b.found = {};
      } else if (drafted_before && one > 0.0) {
        note_aftermath(b, s.seconds() / one - 1.0);
      }
      return;
    }
    if (one <= 0.0) { return; }
    if (s.levels == 0) {
      b.idles.add(std::min(s.seconds() / one, 3.0));
    } else if (settled && !began &&
               (late_ == 0.0 || s.draft_seconds < cheap * s.deepest_computed * one)) {
      b.prices.time_draft(s);
    }
  }

  /// What drafts as deep as pays in the step that `next` was called for. It refers to this object.
  const cost& policy() const { return policy_; }

  /// The same by the prices of so many requests.
  cost prices(std::int32_t running) const {
    const batch& b = of(running);
    return {.draft = b.prices.level(),
            .rows = b.prices.rows(),
            .expected = acceptance(),
            .trust = std::min(accepted_.tested, 32.0),
            .share = options_.share};
  }

  /// What a step is expected to take by what is known before it, and a plain one: in seconds, 0
  /// where nothing is.
  double expected_seconds(const step_summary& s) const {
    const batch& b = of(s.sequences);
    const double begins = cold_ > 0        ? b.before.median() / untimed_after_plain
                          : s.computed > 0 ? price_of_reread(b, s.sequences, missed_)
                                           : 0.0;
    const double steps = s.levels > 0         ? b.prices.of(s) + begins
                         : s.draft_length > 0 ? idle_cost(b)
                                              : 1.0;
    return b.prices.plain() * steps;
  }
  double plain_seconds(std::int32_t running) const { return of(running).prices.plain(); }

  /// Of a drafted token, given that those before it were accepted; more recent ones count for more.
  double acceptance() const { return accepted_.passed / accepted_.tested; }

 private:
  static constexpr double known = 4.0;     ///< tests that the expected acceptance counts for
  static constexpr double formula = 8.0;   ///< steps that what acceptance promises counts for
  static constexpr double lasting = 0.98;  ///< weight of a step with passes at the next one
  static constexpr double fading = 0.995;  ///< weight of findings after a step that might not draft
  static constexpr std::int32_t try_steps = 4;       ///< at least, of which two are timed, and
  static constexpr std::int32_t long_try = 6;        ///< where beginning is what is dear
  static constexpr std::int32_t between_tries = 16;  ///< of other lengths, while drafting pays
  static constexpr double cheap = 0.2;  ///< plain steps for a level: then nothing was read
  static constexpr double few_rows = 8.0;
  static constexpr std::int32_t first_check = 8;  ///< steps that may draft, until a check
  static constexpr double unknown = 0.5;  ///< what a step is taken to lose before it was measured

  /// What is known of batches of about one size.
  struct batch {
    detail::step_prices prices;
    detail::recent<9> idles;  ///< steps that might have drafted and did not, over plain ones
    detail::recent<9> after;  ///< plain steps that the steps after one that drafted took longer
    double aftermath = 0.0;   ///< of the last step that drafted, so far
    std::int32_t after_steps = untimed_after_draft;  ///< of these steps, all before there were any
    detail::recent<9> before;  ///< the same of the first drafting steps after plain ones
    double beginning = 0.0;    ///< of the last ones, so far
    detail::findings found;
    double passes_tokens = 0.0;  ///< of steps whose drafts took passes, recent ones for more
    double passes_cost = 0.0;
    double saved = 0.0;            ///< for tries
    double price = 0.0;            ///< at which the next one begins
    double tried = 0.0;            ///< what the try has gained so far
    bool gained = false;           ///< the last try has gained
    std::int32_t trying = 0;       ///< steps that tries have left
    std::int32_t try_levels = 1;   ///< that they draft
    std::int32_t since_plain = 0;  ///< steps that may draft
    std::int32_t until_check = 0;  ///< such steps until the price of plain ones is checked
    std::int32_t between_checks = 0;
    double usual = between_tries;  ///< such steps until one drafts otherwise than is best
    bool longer = false;           ///< the last one that did
    bool drafts = false;           ///< the last step might have
  };

  /// A count of tests and of what passed, recent ones for more.
  struct tally {
    double tested = 0.0;
    double passed = 0.0;

    void add(std::int64_t more_tested, std::int64_t more_passed) {
      if (more_tested == 0) { return; }
      tested = 0.99 * tested + static_cast<double>(more_tested);
      passed = 0.99 * passed + static_cast<double>(more_passed);
    }
    void fade(double by) {
      tested *= by;
      passed *= by;
    }
    /// Most of it.
    void forget() { fade(0.1); }
  };

  /// A step in which the drafter read what it had missed.
  struct reading {
    double seconds = 0.0;
    double levels = 0.0;
    double rows = 0.0;
  };

  /// What a step is expected to emit and to take, in plain steps.
  struct outlook {
    std::int32_t levels = 0;
    double tokens = 1.0;
    double cost = 1.0;
    double gain() const { return tokens - cost; }
  };

  static constexpr std::size_t max_batches = 16;

  batch& of(std::int32_t running) { return batches_[index(running)]; }
  const batch& of(std::int32_t running) const { return batches_[index(running)]; }
  static std::size_t index(std::int32_t running) {
    const auto width = std::bit_width(static_cast<std::uint32_t>(std::max(running, 1) - 1));
    return std::min(static_cast<std::size_t>(width), max_batches - 1);
  }
  bool wants_plain(const batch& b, std::int32_t running) const {
    // What gains much does not depend on what exactly plain steps take.
    const double steps = options_.refresh *
                         (b.found.weight() > 0.0
                              ? std::clamp(4.0 * b.found.tokens() / b.found.cost() - 3.0, 1.0, 4.0)
                              : 1.0);
    return !b.prices.knows_plain() || b.since_plain >= steps ||
           b.prices.odd() >= detail::step_prices::few || b.prices.is_far(running);
  }

  /// Twice as many steps as before the last one, until plain steps are timed anyway.
  void put_off_check(batch& b) const {
    b.between_checks *= 2;
    b.until_check = b.between_checks < options_.refresh ? b.between_checks
                                                        : std::numeric_limits<std::int32_t>::max();
  }

  /// Notes a step that reads prompts. Where they come all the time, every step finds the caches as
  /// they leave them.
  void note_prompts() {
    if (after_prompt_ < untimed_after_prompt) { often_ = after_prompt_ > 0 ? often_ + 1 : 0; }
    after_prompt_ = untimed_after_prompt;
  }
  bool is_settled() const { return after_prompt_ == 0 || often_ >= detail::step_prices::few; }

  /// Counts what a drafter will have to read, and learns what that takes.
  void note_reading(const step_summary& s) {
    if (s.sequences < was_) { missed_ *= static_cast<double>(s.sequences) / was_; }
    if (s.prompt_rows > 0) { prompts_.add(std::max(s.sequences - was_, 0), s.prompt_rows); }
    was_ = s.sequences - s.finished;
    accepted_.add(s.tested, s.accepted);
    width_.add(s.levels, s.drafted);
    lasted_ += s.emitted;
    if (s.finished > 0) {
      requests_.fade(0.9);
      requests_.add(s.finished, std::exchange(lasted_, 0));
    }
    const double rows = missed_ + static_cast<double>(s.prompt_rows);
    const bool reads = s.prompt_rows > 0 || missed_ > 1.5 * s.sequences;
    // Where another drafter has drafted, a prompt is read in step with the target.
    const bool keeps_up = s.levels > 0 && s.prompt_rows > 0;
    if (reads && (s.computed > 0 || keeps_up)) {
      note_reading_of(rows, rows >= few_rows * s.sequences, s);
    }
    late_ = s.computed > 0 && reads ? rows : 0.0;
    missed_ = s.computed > 0 ? 0.0 : (keeps_up ? 0.0 : rows) + static_cast<double>(s.emitted);
    if (s.finished > 0) { missed_ *= static_cast<double>(was_) / s.sequences; }
  }

  /// A few rows take as long as a pass does: they say nothing of many.
  void note_reading_of(double rows, bool many, const step_summary& s) {
    if (many && !knows_many_) { readings_ = {}; }
    if (!many && knows_many_) { return; }
    knows_many_ = many;
    std::rotate(readings_.begin(), readings_.begin() + 1, readings_.end());
    readings_.back() = {s.draft_seconds, static_cast<double>(s.deepest_computed), rows};
  }

  /// Plain steps that a drafter is expected to take for reading so many rows of the target: a row
  /// takes no more than one of a plain step does.
  double price_of_reading(const batch& b, std::int32_t running, double rows) const {
    const double one = b.prices.plain();
    if (one <= 0.0) { return 0.0; }
    std::array<double, 3> of_row{};
    std::size_t count = 0;
    for (const reading& r : readings_) {
      if (r.rows <= 0.0) { continue; }
      const double seconds = std::max(r.seconds - r.levels * b.prices.level_seconds(), 0.0);
      of_row[count++] = std::min(seconds / r.rows / one, 1.0 / running);
    }
    // The middle one of three, the lower one of two.
    const auto [low, high] = std::minmax({of_row[0], of_row[1]});
    const double middle = count < 3 ? low : std::clamp(of_row[2], low, high);
    return (count < 2 ? of_row[0] : middle) * rows;
  }

  /// The same of rows of steps that drafted without it, if that is more than each step reads.
  double price_of_reread(const batch& b, std::int32_t running, double rows) const {
    return rows > 1.5 * running ? price_of_reading(b, running, rows) : 0.0;
  }

  static void begin_aftermath(batch& b) {
    b.aftermath = 0.0;
    b.after_steps = 0;
  }

  /// What a step after one that drafted took longer than a plain one. Steps of batches of another
  /// size may come between.
  static void note_aftermath(batch& b, double longer) {
    if (b.after_steps == untimed_after_draft) { return; }
    // No caches are as cold as that: something else has taken the time.
    const bool disturbed = longer > 1.0;
    b.aftermath += disturbed ? b.after.median() / untimed_after_draft : std::max(longer, -0.5);
    if (++b.after_steps < untimed_after_draft) { return; }
    b.after.add(std::max(b.aftermath, 0.0));
  }

  /// What a drafting step after plain ones took longer than others.
  void note_beginning(batch& b, double longer) const {
    const bool disturbed = longer > 1.0;
    b.beginning += disturbed ? b.before.median() / untimed_after_plain : std::max(longer, -0.5);
    if (cold_ > 1) { return; }
    b.before.add(std::max(std::exchange(b.beginning, 0.0), 0.0));
  }

  /// Of a step that might have drafted and did not. That costs next to nothing, as a rule: not what
  /// one clock reading says.
  static double idle_cost(const batch& b) {
    const double typical = b.idles.count() < detail::step_prices::few ? 1.0 : b.idles.typical();
    return typical > 1.05 ? typical : 1.0;
  }

  /// Tokens over plain steps of the steps whose drafts took passes of a drafter: of those that copy
  /// the text nothing is left where it does not repeat. Before there were any, what is expected.
  double rate_of_passes(const batch& b, std::int32_t reach) const {
    if (b.passes_cost > 0.0) { return std::max(b.passes_tokens / b.passes_cost, 1.0); }
    return planner::best_length(planner::same_acceptance{acceptance()}, policy_.draft, reach,
                                policy_.rows, mean_width())
        .rate;
  }

  /// Rows of a level.
  double mean_width() const { return width_.tested > 0.0 ? width_.passed / width_.tested : 1.0; }

  /// The length that is best if all drafts have it, 1 if none pays: in a batch, what one sequence
  /// drafts deeper than the others it drafts alone, at the price of all.
  std::int32_t common_length(std::int32_t reach) const {
    const std::int32_t best = planner::best_length(planner::same_acceptance{acceptance()},
                                                   policy_.draft, reach, policy_.rows, mean_width())
                                  .length;
    return std::max(best, 1);
  }

  /// By what steps that might have drafted have emitted, and what the acceptance of all promises
  /// for the best length.
  outlook of_drafts(const batch& b, std::int32_t reach) const {
    outlook best{.levels = 1};
    double tokens = 1.0;
    double chance = 1.0;
    for (std::int32_t n = 1; n <= reach; ++n) {
      chance *= acceptance();
      tokens += chance;
      const double cost = policy_.rows.at(1.0 + n * mean_width()) + n * policy_.draft;
      if (n == 1 || tokens * best.cost > best.tokens * cost) { best = {n, tokens, cost}; }
    }
    // Where hardly any of these steps has drafted, the drafter knows when not to.
    const double weight = b.found.weight();
    const double trust = formula * (b.found.drafted() + 1.0) / (weight + 1.0);
    const double all = weight + trust;
    return {best.levels, (b.found.tokens() + trust * best.tokens) / all,
            (b.found.cost() + trust * best.cost) / all};
  }

  /// Whether it is time to draft otherwise than is best.
  bool explores_now(batch& b) {
    b.usual -= 1.0;
    if (b.usual > 0.0) { return false; }
    b.usual = between_tries * draw();
    return true;
  }

  /// Whether the next step may draft.
  bool allows(batch& b, std::int32_t running, std::int32_t reach) {
    if (b.trying > 0) { return true; }
    const std::int32_t come = std::max(running - was_, 0);
    const double prompt = prompts_.tested > 0.0 ? prompts_.passed / prompts_.tested : 0.0;
    const double rows = missed_ + come * prompt;
    double begins = rows > 1.5 * running ? price_of_reading(b, running, rows) : 0.0;
    if (!b.prices.knows_drafts()) {
      // Once begun it goes on: a drafter that had something to read first says nothing.
      return b.saved >= unknown + begins || (b.drafts && begins == 0.0 && b.saved > -unknown);
    }
    if (!b.drafts) { begins += b.after.median() + b.before.median(); }
    const outlook step = of_drafts(b, reach);
    const double gain = step.gain();
    // A request that runs is taken to have half of its tokens.
    const double steps = requests_.passed / requests_.tested / step.tokens;
    const double gains = gain * steps * (was_ > 0 ? 0.5 : 1.0);
    if (gains >= begins || (begins == 0.0 && -gain <= options_.tolerated * step.cost)) {
      b.gained = false;
      return true;
    }
    if (std::exchange(b.gained, false)) {
      b.trying = try_steps;
      return true;
    }
    const double loss = std::max(-gain, 0.02);
    const double long_enough = std::clamp(begins / loss, double{try_steps}, double{long_try});
    const double price = begins + loss * long_enough;
    b.price = price * threshold_;
    if (b.saved < b.price) { return false; }
    b.saved -= price;
    b.trying = static_cast<std::int32_t>(long_enough);
    b.try_levels = step.levels;
    threshold_ = draw();
    return true;
  }

  void book(batch& b, const step_summary& s) {
    const double tokens = static_cast<double>(s.emitted) / s.sequences;
    const double cost =
        s.levels > 0 ? b.prices.of(s) + price_of_reread(b, s.sequences, reread_) : idle_cost(b);
    if (b.trying > 0) { b.tried += tokens - cost; }
    if (b.found.add(tokens, cost, s.levels > 0)) { accepted_.forget(); }
    if (2 * s.computed > s.levels) {
      b.passes_tokens = lasting * b.passes_tokens + tokens;
      b.passes_cost = lasting * b.passes_cost + b.prices.of(s);
    }
  }

  /// From [0.5, 1.5). A generator by Steele, Lea, Flood 2014 (splitmix64).
  double draw() {
    random_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = random_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return 0.5 + static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

  options options_;
  std::int32_t max_depth_;
  std::uint64_t random_;
  double threshold_ = 1.0;
  std::array<batch, max_batches> batches_{};
  cost policy_;
  std::size_t asked_ = 0;  ///< batches of the size that `next` was called for
  bool checks_ = false;    ///< and the price of plain steps is held against one
  tally accepted_;
  tally width_;                        ///< levels, and nodes in them
  std::array<reading, 3> readings_{};  ///< the last ones
  bool knows_many_ = false;            ///< which are of many rows
  tally prompts_;                ///< requests that came, and tokens that were read in that step
  tally requests_{1.0, 64.0};    ///< that ended, and their tokens
  std::int64_t lasted_ = 0;      ///< tokens since one ended
  double missed_ = 0.0;          ///< rows of the target since the last draft
  double late_ = 0.0;            ///< that the last step's drafter had to read
  double reread_ = 0.0;          ///< of these, such as steps between drafts of another drafter had
  std::int32_t was_ = 0;         ///< sequences that went on after the last step
  std::int32_t untimed_ = 0;     ///< plain steps that are not timed, after a draft
  std::int32_t after_idle_ = 0;  ///< after one that might have drafted
  std::int32_t cold_ = 0;        ///< drafting steps that are not timed, after a plain one
  std::int32_t after_prompt_ = 0;  ///< and after a prompt
  std::int32_t often_ = 0;         ///< prompts in turn that came within these
};

}  // namespace hunch::length

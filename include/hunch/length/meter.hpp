// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/planner.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch::length {

/// Learns from the steps of a decoder what drafting costs and brings, and lets it draft as long as
/// that is faster than plain decoding: `next` before a step is the draft length to set, `observe`
/// takes `decoder::last_step` after it. The policy of the drafter is `metered`, or any other.
///
/// **Prices.** All of a step is priced, whatever it is spent on. With the seconds of a plain step
/// of the same batch for a unit, r(n) is what steps with n rows per sequence took outside of
/// drafting, and c what drafting took per level, in steps in which most sequences drafted most
/// levels: they share the passes of a drafter. Medians of recent steps.
///
/// **An account.** Plain decoding emits a token per sequence and unit. What a step that may draft
/// brings beyond that is booked to the account of its batch size, so long as it holds no more than
/// chance may draw from it, `most` over the root of the batch; what it loses is drawn from it. A
/// step that drafts has to bring a `margin` more than it costs, and beyond one level it drafts no
/// deeper than `stake` of the account pays for if nothing is accepted: so bad luck with the first
/// drafts does not empty it. It leaves caches that slow the next plain steps down: what these take
/// longer is a price of the draft, too; and so is what steps take longer that might have drafted
/// and did not, such as those with streams, once that is 5 %. Where the account is empty nothing is
/// drafted, and what was drawn beyond it is taken from what is put aside for tries. So a decoder
/// loses `credit` plain steps at most, what tries cost, and what is less than that share of a step.
///
/// **Tries.** Where nothing is drafted nothing is learnt. So `share` of the time is put aside, and
/// as soon as it covers what a try is expected to cost, a step drafts: all sequences at once, since
/// the models' passes are shared. A try that loses little comes back soon, one that loses much
/// late; one that gains is repeated at once, and opens the account again.
///
/// **Reading.** A drafter reads prompts, and what it has missed while nothing was drafted. That
/// belongs to the price of a try, beside a prompt as after it. Where drafting pays, it is an
/// investment: it is drawn from the account over the steps that a request takes on the mean, and
/// what is left when the account is empty once drafting pays again. So a drafter whose gains do not
/// cover its readings is switched off, too. What the first one takes is
/// learnt by paying it.
///
/// Steps in which prompts are read are not timed: their drafts are booked at what they are expected
/// to cost. A drafter that drafts in the step after a first one only, as streams do, is tried for
/// two. Batches of up to 1, 2, 4, 8, ... requests are distinguished. A step counts for no more than
/// the last few took over what was expected of them, so that one that was disturbed does not
/// decide. What is decided for a step depends on earlier steps alone: any law stays as it is. But
/// it depends on the clock: see `decoder::draft_length` for how a text is repeated.
class meter {
 public:
  /// Plain steps after one that drafted, or might have, which are not timed: they find the caches
  /// as it left them.
  static constexpr std::int32_t untimed_after_draft = 4;

  struct options {
    double share = 0.0075;      ///< of the time, for tries
    double credit = 2.0;        ///< plain steps that each account begins with
    double most = 16.0;         ///< plain steps in an account, over the root of the batch
    double margin = 0.05;       ///< by which drafting has to be faster
    double stake = 0.5;         ///< of an account, for one step
    std::int32_t refresh = 96;  ///< steps that may draft before a plain one is timed again
    double expected = 0.7;      ///< acceptance before anything is known
  };

  /// \param max_depth levels that the drafter can draft; below 1: none.
  explicit meter(std::int32_t max_depth) : meter(max_depth, options{}) {}
  meter(std::int32_t max_depth, const options& o) : options_(o), max_depth_(max_depth) {
    for (batch& b : batches_) {
      b.account = o.credit;
      b.saved = 0.5 * o.credit;
    }
    accepted_ = {known, known * o.expected};
  }

  /// Neither copied nor moved: policies refer to it.
  meter(const meter&) = delete;
  meter& operator=(const meter&) = delete;

  /// Levels that the next step may draft, for `running` requests, to be set as
  /// `decoder::draft_length`: 0 is plain decoding.
  std::int32_t next(std::int32_t running) {
    batch& b = of(running);
    tries_ = false;
    if (max_depth_ < 1 || wants_plain(b, running)) {
      again_ = false;
      return 0;
    }
    const std::int32_t reach = std::clamp(2 * b.deepest, std::int32_t{1}, max_depth_);
    const bool rests = b.account <= 0.0 || b.idle > 0 || (b.won > 0 && b.won < in_turn);
    tries_ = again_ || ((rests || b.since_try >= between_tries) && affords_try(b, running));
    if (!tries_ && b.account <= 0.0) { return 0; }
    policy_ = prices(running);
    policy_.at_least = tries_ ? 1 : 0;
    const std::int32_t paid = paid_for(b, reach);
    return running > 1 ? std::min(paid, common_length(paid)) : paid;
  }

  /// Takes note of a step whose draft length `next` has chosen.
  void observe(const step_summary& s) {
    const bool drafted_before = untimed_ > 0;  // a step that drafted
    learn(s);
    if (s.sequences < 1) { return; }
    batch& b = of(s.sequences);
    const double one = b.plain.typical();
    if (one <= 0.0) { return; }
    if (s.prompt_rows > 0) {
      if (s.levels > 0) { book(b, s, beside_a_prompt(b, s), late_price(b, s)); }
      return;
    }
    const double cost = std::min(s.seconds() / one, max_believed(b, s));
    b.saved = std::min(b.saved + options_.share * cost, std::max(options_.most, b.price));
    const bool after_draft = drafted_before && s.levels == 0;
    if (s.draft_length > 0) {
      const double least = b.level.count() < few ? 1.0 + unknown : 1.0;  // if it drafts
      const double read = std::min(late_price(b, s), std::max(cost - least, 0.0));
      book(b, s, after_draft ? 1.0 : cost - read, read);
    }
    if (after_draft) { book_aftermath(b, s.seconds() / one - 1.0); }
  }

  /// Learns prices and acceptance from a step, whatever chose its draft length; books nothing.
  void learn(const step_summary& s) {
    if (s.sequences < was_) { missed_ *= static_cast<double>(s.sequences) / was_; }
    if (s.prompt_rows > 0) { prompts_.add(std::max(s.sequences - was_, 0), s.prompt_rows); }
    was_ = s.sequences - s.finished;
    accepted_.add(s.tested, s.accepted);
    width_.add(s.levels, s.drafted);
    lasted_ += s.sequences;
    if (s.finished > 0) { requests_.add(s.finished, std::exchange(lasted_, 0)); }
    const bool reads = s.prompt_rows > 0 || missed_ > 1.5 * s.sequences;
    const double rows = missed_ + static_cast<double>(s.prompt_rows);
    if (s.levels > 0 && reads) { reading_.add(s.draft_seconds, s.deepest, rows); }
    late_ = s.levels > 0 ? rows / s.sequences : 0.0;
    missed_ = s.levels > 0 ? 0.0 : rows + static_cast<double>(s.emitted);
    if (s.finished > 0) { missed_ *= static_cast<double>(was_) / s.sequences; }
    if (s.prompt_rows > 0) { after_prompt_ = untimed_after_draft; }
    if (s.sequences < 1 || s.prompt_rows > 0) { return; }
    batch& b = of(s.sequences);
    const bool timed = is_timed();
    untimed_ = s.levels > 0 ? untimed_after_draft : std::max(untimed_ - 1, 0);
    after_idle_ = s.draft_length > 0 ? untimed_after_draft : std::max(after_idle_ - 1, 0);
    after_prompt_ = std::max(after_prompt_ - 1, 0);
    if (s.draft_length == 0) {
      if (timed) { time_plain(b, s); }
      return;
    }
    ++b.since_plain;
    const double one = b.plain.typical();
    if (one <= 0.0 || s.levels == 0 || reads) { return; }
    const double mean = 1.0 + static_cast<double>(s.drafted) / s.sequences;
    if (b.level.count() >= few) {
      const double share = s.seconds() / one / expected_cost(b, mean, s.deepest);
      b.odd = alike(share) ? 0 : b.odd + 1;
      b.shares.add(share);
    }
    const auto n = static_cast<std::size_t>(std::min(mean + 0.5, static_cast<double>(max_rows)));
    b.deepest = std::max(b.deepest, s.deepest);
    // No more than twice what passes of the target would take in its place.
    if (2 * s.levels >= std::int64_t{s.sequences} * s.deepest) {
      b.level.add(std::min(s.draft_seconds / s.deepest / one, 2.0));
    }
    if (n > 1) {
      b.rows[n].add(std::min((s.target_seconds + s.verify_seconds) / one, mean));
      b.seen[n] = steps_;
    }
    ++steps_;
  }

  /// What drafts as deep as pays in the step that `next` was called for. It refers to this object.
  const cost& policy() const { return policy_; }

  /// The same by the prices of so many requests.
  cost prices(std::int32_t running) {
    const batch& b = of(running);
    return {.draft = b.level.median(), .rows = curve(b), .expected = acceptance(), .retry = 0};
  }

  /// Of a drafted token, given that those before it were accepted; more recent ones count for more.
  double acceptance() const { return accepted_.passed / accepted_.tested; }

  /// Plain steps that drafting with so many requests may lose before it stops.
  double account(std::int32_t running) const { return of(running).account; }

 private:
  static constexpr double known = 8.0;      ///< tests that the expected acceptance counts for
  static constexpr double unknown = 0.5;    ///< what a try is taken to cost before it was measured
  static constexpr double cheapest = 0.02;  ///< try
  static constexpr std::int32_t few = 3;  ///< measurements that one that was disturbed can be among
  static constexpr std::int32_t max_rows = 64;  ///< of a sequence; further ones are like the last
  static constexpr std::int32_t in_turn = 8;    ///< tries, before a policy chooses more
  static constexpr std::int32_t between_tries = 16;  ///< steps, while drafting pays
  // Steps that draft, until a price is dropped that was not measured again: few measurements, and
  // more.
  static constexpr std::int64_t soon_stale = 64;
  static constexpr std::int64_t stale = 2000;

  /// The last few of some times. They are read more often than they change.
  template <std::size_t Size>
  class recent {
   public:
    void add(double value) {
      values_[static_cast<std::size_t>(count_) % Size] = static_cast<float>(value);
      count_ = count_ + 1 == static_cast<std::int32_t>(2 * Size) ? static_cast<std::int32_t>(Size)
                                                                 : count_ + 1;
      median_ = middle();
      typical_ = size() < std::max(Size / 2, std::size_t{3}) ? median_ : mean_below(2.0 * median_);
    }
    /// As many as were added, or more than all that are kept.
    std::int32_t count() const { return count_; }
    /// The lower one of two, 0 of nothing.
    double median() const { return median_; }
    /// The mean without the largest and the smallest, of which nothing counts for more than twice
    /// the median: what a sum of many is made of, but for what happens once. Of a few the median.
    double typical() const { return typical_; }

   private:
    std::size_t size() const { return std::min(static_cast<std::size_t>(count_), Size); }
    double middle() const {
      std::array<float, Size> sorted = values_;
      const auto at = sorted.begin() + static_cast<std::ptrdiff_t>((size() - 1) / 2);
      std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(size()));
      return *at;
    }
    double mean_below(double most) const {
      double sum = 0.0;
      double least = most;
      double largest = 0.0;
      for (std::size_t i = 0; i < size(); ++i) {
        const double value = std::min(static_cast<double>(values_[i]), most);
        sum += value;
        least = std::min(least, value);
        largest = std::max(largest, value);
      }
      return (sum - least - largest) / static_cast<double>(size() - 2);
    }

    std::array<float, Size> values_{};
    std::int32_t count_ = 0;
    double median_ = 0.0;
    double typical_ = 0.0;
  };

  /// What is known of batches of about one size.
  struct batch {
    recent<15> plain;  ///< seconds
    recent<9> level;   ///< c
    recent<3> shares;  ///< what steps that drafted took over what was expected of them
    recent<9> idles;   ///< steps that might have drafted and did not, over plain ones
    recent<9> after;   ///< plain steps that the steps after one that drafted took longer
    std::array<recent<9>, max_rows + 1> rows;       ///< r(n)
    std::array<std::int64_t, max_rows + 1> seen{};  ///< when
    std::int32_t size = 0;                          ///< requests of the last plain step
    std::int32_t deepest = 0;
    double account = 0.0;
    double saved = 0.0;  ///< for tries
    double owed = 0.0;   ///< for what the drafter has read, while drafting pays
    double price = 0.0;  ///< of the try that was computed last
    std::int32_t since_plain = 0;
    std::int32_t since_try = 0;
    std::int32_t odd = 0;    ///< steps in turn that took another time than is expected of them
    std::int32_t idle = 0;   ///< steps in turn that might have drafted and did not
    std::int32_t won = 0;    ///< tries in turn that gained
    double aftermath = 0.0;  ///< of the last step that drafted, so far
    bool lost = false;       ///< it was a try that lost
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
  };

  /// Steps in which the drafter read what it had missed, recent ones for more.
  struct readings {
    double seconds = 0.0;
    double levels = 0.0;
    double rows = 0.0;

    void add(double more_seconds, double more_levels, double more_rows) {
      seconds = 0.5 * seconds + more_seconds;
      levels = 0.5 * levels + more_levels;
      rows = 0.5 * rows + more_rows;
    }
  };

  batch& of(std::int32_t running) { return batches_[index(running)]; }
  const batch& of(std::int32_t running) const { return batches_[index(running)]; }
  static std::size_t index(std::int32_t running) {
    const auto width = std::bit_width(static_cast<std::uint32_t>(std::max(running, 1) - 1));
    return std::min(static_cast<std::size_t>(width), std::size_t{max_batches - 1});
  }
  /// Whether a plain step of so many requests may take quite another time than the last ones did.
  static bool is_far(const batch& b, std::int32_t running) {
    return 4 * std::abs(running - b.size) > running;
  }
  bool wants_plain(const batch& b, std::int32_t running) const {
    return b.plain.count() < few || b.since_plain >= options_.refresh || b.odd >= few ||
           is_far(b, running);
  }
  /// Whether two times, of which this is the ratio, are of one machine in one state.
  static bool alike(double ratio) { return ratio > 0.8 && ratio < 1.25; }

  /// Whether the next step finds the caches as plain decoding leaves them, not as a drafter,
  /// streams that nobody drafted from or a prompt has. Where prompts come all the time it always
  /// does.
  bool is_timed() {
    if (untimed_ > 0 || after_idle_ > 0) { return false; }
    passed_ = after_prompt_ > 0 ? passed_ + 1 : 0;
    if (passed_ > 2 * untimed_after_draft) { passed_ = 0; }
    return passed_ == 0;
  }

  /// Where the machine has become slower or faster, what was timed before says nothing any more.
  void time_plain(batch& b, const step_summary& s) {
    const double before = b.plain.median();
    if (is_far(b, s.sequences) || (b.plain.count() >= few && !alike(s.seconds() / before))) {
      b.plain = {};
    }
    b.plain.add(s.seconds());
    b.size = s.sequences;
    b.since_plain = 0;
    b.odd = 0;
  }

  /// r(1), r(2), ... as far as it was measured. More rows never cost less: where a measurement says
  /// so, it was disturbed. What two rows cost more than one may be the price of drafting at all:
  /// until more are measured, further ones are taken to be free.
  planner::row_costs curve(const batch& b) const {
    std::array<double, max_rows + 1> costs;
    costs[0] = 1.0;
    std::size_t last = 0;
    for (std::size_t n = 2; n <= max_rows; ++n) {
      if (steps_ - b.seen[n] > (b.rows[n].count() < few ? soon_stale : stale)) { continue; }
      if (b.rows[n].count() == 0) { continue; }
      const double from = costs[last];
      const double rise = std::max(b.rows[n].median() - from, 0.0);
      for (std::size_t i = last + 1; i < n; ++i) {
        costs[i] = from + rise * static_cast<double>(i - last) / static_cast<double>(n - 1 - last);
      }
      last = n - 1;
      costs[last] = from + rise;
    }
    if (last == 1) {
      costs[last + 1] = costs[last];
      ++last;
    }
    return std::span<const double>{costs.data(), last + 1};
  }

  /// What a step is expected to take, over a plain one, if drafting has been measured.
  double expected_cost(const batch& b, double rows, double levels) {
    return curve(b).at(rows) + levels * b.level.median();
  }

  /// What it is let count for: where prices are known, what the last few like it took over what was
  /// expected of them. Before, a row costs no more than a pass of its own, drafting a level not
  /// more than a pass of the target, and reading a row no more than that either.
  double max_believed(const batch& b, const step_summary& s) {
    constexpr double most = 3.0;
    if (s.levels == 0) { return most; }  // of these a mean decides
    const double levels = s.deepest;
    const double rows = 1.0 + static_cast<double>(s.drafted) / s.sequences;
    const double reading = reading_.rows > 0.0 ? std::min(1.5 * late_price(b, s), late_) : late_;
    if (b.level.count() < few) { return rows + levels + reading + 1.0; }
    return std::clamp(b.shares.median(), 1.0, most) * expected_cost(b, rows, levels) + reading;
  }

  /// What drafting is taken to cost in a step that reads a prompt, whose time says nothing of it.
  double beside_a_prompt(const batch& b, const step_summary& s) {
    if (b.level.count() < few) { return 1.0 + unknown; }
    return expected_cost(b, 1.0 + static_cast<double>(s.drafted) / s.sequences, s.deepest);
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

  /// The most levels that a step may lose, one at least.
  std::int32_t paid_for(const batch& b, std::int32_t reach) const {
    const double most = std::max(options_.stake * b.account, tries_ ? b.saved : 0.0);
    const auto loss = [this](double levels) {
      return policy_.rows.at(1.0 + levels * mean_width()) - 1.0 + levels * policy_.draft;
    };
    while (reach > 1 && loss(reach) > most) { --reach; }
    return reach;
  }

  bool affords_try(batch& b, std::int32_t running) {
    // As a rule there is less than any try costs.
    if (b.saved < cheapest + b.after.median()) { return false; }
    const std::int32_t come = std::max(running - was_, 0);
    const double prompt = prompts_.tested > 0.0 ? prompts_.passed / prompts_.tested : 0.0;
    b.price = price_of_try(b) + price_of_reading(b, missed_ + come * prompt);
    return b.saved >= b.price;
  }

  /// Of a drafter that has read everything.
  double price_of_try(const batch& b) {
    double price = std::max(expected_cost(b, 1.0 + mean_width(), 1.0) - 1.0, cheapest);
    if (b.level.count() < few) { price = std::min(price, unknown); }
    return price + b.after.median();
  }

  /// What the drafter of a step took to read what it had missed.
  double late_price(const batch& b, const step_summary& s) const {
    return s.levels > 0 ? price_of_reading(b, late_ * s.sequences) : 0.0;
  }

  /// What a drafter is expected to take for reading so many rows of the target.
  double price_of_reading(const batch& b, double rows) const {
    const double one = b.plain.typical();
    if (reading_.rows <= 0.0 || one <= 0.0) { return 0.0; }
    const double seconds = reading_.seconds - reading_.levels * b.level.median() * one;
    return std::max(seconds, 0.0) / reading_.rows * rows / one;
  }

  /// \param cost in plain steps, without what follows.
  /// \param read what the drafter took to read what it had missed, likewise.
  void book(batch& b, const step_summary& s, double cost, double read) {
    double gain = static_cast<double>(s.emitted) / s.sequences - cost;
    b.since_try = tries_ ? 0 : b.since_try + 1;
    again_ = tries_ && s.levels == 0 && !again_;
    if (tries_) {
      b.saved = std::max(b.saved - read, -options_.most);
    } else {
      const double steps = std::max(requests_.passed / requests_.tested, 1.0);
      const double part = (b.owed + read) / steps;
      b.owed += read - part;
      gain -= part;
    }
    if (s.levels > 0) {
      b.idle = 0;
      b.aftermath = 0.0;
      b.lost = tries_ && gain < options_.margin * cost;
      gain -= options_.margin * cost;
    } else {
      // What is not drafted costs next to nothing, as a rule: not what one clock reading says.
      ++b.idle;
      b.idles.add(cost);
      gain = b.idles.count() < few ? 0.0 : std::min(1.0 - b.idles.typical(), 0.0);
      if (gain > -0.05) { gain = 0.0; }
    }
    b.won = tries_ && gain > 0.0 ? b.won + 1 : 0;
    if (tries_ && gain < 0.0) {
      b.saved = std::max(b.saved + gain, -options_.most);
    } else {
      draw(b, -gain, s.levels > 0 ? usual_loss(b, s) : -gain);
    }
    const double most = std::max(options_.most / std::sqrt(s.sequences), options_.credit);
    b.account = std::min(b.account, most);
  }

  /// What a step after one that drafted took longer than a plain one, in plain ones: the caches
  /// are as the drafter has left them. Each for itself is hardly known.
  void book_aftermath(batch& b, double longer) {
    // No caches are as cold as that: something else has taken the time.
    const bool disturbed = longer > 1.0;
    const double cost = disturbed ? b.after.median() / untimed_after_draft : std::max(longer, -0.5);
    b.aftermath += cost;
    if (b.lost || b.account <= 0.0) {
      b.saved -= cost;
    } else {
      draw(b, cost, cost);
    }
    if (untimed_ > 0) { return; }
    b.after.add(std::max(b.aftermath, 0.0));
    b.aftermath = 0.0;
  }

  /// Takes a loss from an account. What it does not hold is taken from what was saved, as far as it
  /// is usual.
  void draw(batch& b, double loss, double usual) {
    b.account -= loss;
    if (b.account < 0.0) {
      b.saved -= std::min(-b.account, std::max(usual, 0.0));
      b.account = 0.0;
    }
  }

  /// What a step that drafted was expected to lose, for what it emitted.
  double usual_loss(const batch& b, const step_summary& s) {
    if (b.level.count() < few) { return 0.0; }
    const double rows = 1.0 + static_cast<double>(s.drafted) / s.sequences;
    return expected_cost(b, rows, s.deepest) - static_cast<double>(s.emitted) / s.sequences;
  }

  static constexpr std::int32_t max_batches = 16;

  options options_;
  std::int32_t max_depth_;
  std::array<batch, max_batches> batches_{};
  cost policy_;
  tally accepted_;
  tally width_;  ///< levels, and nodes in them
  readings reading_;
  tally prompts_;              ///< requests that came, and tokens that were read in that step
  tally requests_{1.0, 64.0};  ///< that ended, and their steps
  std::int64_t lasted_ = 0;    ///< steps of requests since one ended
  double missed_ = 0.0;        ///< rows of the target since the last draft
  double late_ = 0.0;       ///< of a sequence, which the last step's drafter may have had to read
  std::int32_t was_ = 0;    ///< sequences that went on after the last step
  std::int64_t steps_ = 0;  ///< that drafted
  bool tries_ = false;
  bool again_ = false;             ///< the try before has drafted nothing
  std::int32_t untimed_ = 0;       ///< plain steps that are not timed, after a draft
  std::int32_t after_idle_ = 0;    ///< after one that might have drafted
  std::int32_t after_prompt_ = 0;  ///< and after a prompt
  std::int32_t passed_ = 0;        ///< in turn that were not timed for that
};

}  // namespace hunch::length

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <hunch/length/detail/level_line.hpp>
#include <hunch/length/detail/recent.hpp>
#include <hunch/length/row_costs.hpp>
#include <hunch/length/step_summary.hpp>

namespace hunch::length::detail {

/// What the steps of batches of about one size take, learnt from steps. All of a step is priced,
/// whatever it is spent on: in seconds of a plain step, one of k levels and n rows per sequence
/// takes r(n) + k c, where c is what one more computed level of a draft takes and r(n) what is left
/// of steps with n rows, the price of drafting at all included. r(1) is 1.
///
/// What is typical of recent steps: one that was disturbed decides nothing, and some that took
/// longer than most count, as they do in the time of a text. Where the machine becomes slower or
/// faster, plain steps are timed anew, and the others in their measure.
class step_prices {
 public:
  static constexpr std::int32_t few = 3;  ///< measurements that one that was disturbed can be among
  static constexpr std::int32_t max_rows = 64;  ///< of a sequence; further ones are like the last

  /// Seconds of a plain step, 0 before one was timed.
  double plain() const { return plain_.typical(); }
  bool knows_plain() const { return plain_.count() >= few; }
  /// Whether enough steps have drafted to say what that takes.
  bool knows_drafts() const { return timed_ >= few; }
  bool times_drafts() const { return timed_ > 0; }
  /// Whether a plain step of so many requests may take quite another time than the last ones did.
  bool is_far(std::int32_t running) const { return 4 * std::abs(running - size_) > running; }
  /// Levels of the deepest draft.
  std::int32_t deepest() const { return deepest_; }
  /// Steps in turn that took another time than was expected of them.
  std::int32_t odd() const { return odd_; }

  /// Takes the time of a plain step whose caches are as plain decoding leaves them.
  /// \return whether that changes every price.
  bool time_plain(const step_summary& s) {
    const bool changed =
        is_far(s.sequences) || (knows_plain() && !alike(s.seconds() / plain_.median()));
    if (changed) { plain_ = {}; }
    plain_.add(s.seconds());
    size_ = s.sequences;
    odd_ = 0;
    return changed;
  }

  /// Whether a plain step among steps that draft shows that plain ones take less than their price.
  /// The caches that drafts leave make it slower, and nothing makes it faster.
  bool refuted_by(const step_summary& s) const {
    return knows_plain() && !is_far(s.sequences) && s.seconds() < 0.75 * plain_.median();
  }

  /// Forgets what plain steps take, and what was measured in them. That drafts can be timed is
  /// known for all that.
  void forget() {
    plain_ = {};
    rows_ = {};
    odd_ = 0;
  }

  /// Takes the time of a step that drafted, and whose drafter had nothing else to read.
  void time_draft(const step_summary& s) {
    const double one = plain();
    if (one <= 0.0) { return; }
    const double mean = 1.0 + static_cast<double>(s.drafted) / s.sequences;
    if (knows_drafts()) { odd_ = alike(s.seconds() / one / of(s)) ? 0 : odd_ + 1; }
    deepest_ = std::max(deepest_, s.deepest);
    // Levels that few of the sequences draft say nothing of those that all share. And none takes
    // more than twice what a pass of the target would take in its place.
    const std::int32_t deepest = s.deepest_computed;
    if (2 * s.computed >= std::int64_t{s.sequences} * deepest) {
      if (deepest > 0) { levels_.add(deepest, std::min(s.draft_seconds, 2.0 * one * deepest)); }
    }
    // Where most of them copy, too, it is known what a draft takes.
    if (2 * s.levels >= std::int64_t{s.sequences} * s.deepest) {
      timed_ = std::min(timed_ + 1, few);
    }
    const std::size_t n = place_of(mean);
    const double rest = s.seconds() - levels_.seconds() * deepest;
    if (is_stale(n)) { rows_[n] = {}; }
    rows_[n].add(std::min(rest / one, mean + 1.0));
    seen_[n] = steps_;
    ++steps_;
  }

  double level_seconds() const { return levels_.seconds(); }
  /// c.
  double level() const { return plain() > 0.0 ? levels_.seconds() / plain() : 0.0; }

  /// r(1), r(2), ... as far as it was measured. More rows never cost less: where a measurement says
  /// so, it was disturbed. What two rows cost more than one may be the price of drafting at all:
  /// until more are measured, further ones are taken to be free.
  planner::row_costs rows() const {
    std::array<double, max_rows + 1> costs;
    costs[0] = 1.0;
    std::size_t last = 0;
    for (std::size_t n = 2; n <= max_rows; ++n) {
      if (rows_[n].count() == 0 || is_stale(n)) { continue; }
      const double from = costs[last];
      const double rise = std::max(rows_[n].typical() - from, 0.0);
      for (std::size_t i = last + 1; i < n; ++i) {
        costs[i] = from + rise * static_cast<double>(i - last) / static_cast<double>(n - 1 - last);
      }
      last = n - 1;
      costs[last] = from + rise;
    }
    if (last == 1 || last + 1 == max_rows) {  // those beyond `max_rows` are like the last
      costs[last + 1] = costs[last];
      ++last;
    }
    return std::span<const double>{costs.data(), last + 1};
  }

  /// Plain steps that a step is expected to take.
  double of(const step_summary& s) const {
    if (s.sequences < 1) { return 0.0; }
    if (s.levels == 0) { return 1.0; }
    const double mean = 1.0 + static_cast<double>(s.drafted) / s.sequences;
    return rows_at(mean) + s.deepest_computed * level();
  }

 private:
  static std::size_t place_of(double rows) {
    return static_cast<std::size_t>(std::min(rows + 0.5, static_cast<double>(max_rows)));
  }

  /// Of a step with so many rows per sequence. Where few sequences of a batch draft, it has hardly
  /// more rows than a plain one: what it takes besides is that some of them draft at all, and read
  /// what they have missed.
  double rows_at(double mean) const {
    const std::size_t n = place_of(mean);
    const bool known = n == 1 && rows_[n].count() > 0 && !is_stale(n);
    return known ? std::max(rows_[n].typical(), 1.0) : rows().at(mean);
  }

  // Steps that draft, until a price is dropped that was not measured again: few measurements, and
  // more.
  static constexpr std::int64_t soon_stale = 64;
  static constexpr std::int64_t stale = 2000;

  bool is_stale(std::size_t n) const {
    return steps_ - seen_[n] > (rows_[n].count() < few ? soon_stale : stale);
  }

  /// Whether two times, of which this is the ratio, are of one machine in one state.
  static bool alike(double ratio) { return ratio > 0.8 && ratio < 1.25; }

  recent<15> plain_;
  level_line levels_;
  std::array<recent<15>, max_rows + 1> rows_;
  std::array<std::int64_t, max_rows + 1> seen_{};  ///< when
  std::int64_t steps_ = 0;                         ///< that drafted
  std::int32_t timed_ = 0;                         ///< of these, that say what drafting takes
  std::int32_t size_ = 0;                          ///< requests of the last plain step
  std::int32_t deepest_ = 0;
  std::int32_t odd_ = 0;
};

}  // namespace hunch::length::detail

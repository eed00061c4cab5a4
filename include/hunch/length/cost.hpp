// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/planner.hpp>

namespace hunch::length {

/// Drafts on while it pays: while the tokens that further levels are expected to bring exceed what
/// these levels cost, times the tokens per cost that the sequence gets at its best. With the costs
/// of the planner:
///
///   P(all drawn so far survive) * (a_1 + a_1 a_2 + ... + a_1 ... a_k)
///     > rate * (k c + r(rows with k more levels) - r(rows))   for some k >= 1
///
/// where a_i is the acceptance at the i-th level from here, an exponentially weighted mean of what
/// was tested at that depth, and rate = max over lengths n of E[tokens] / (r(1 + n w) + n c) under
/// these means, for w rows per level, 1 in a chain, and at most as many as the tree keeps. A token
/// survives as often as those did that were about as probable. Where not even one level pays
/// nothing is drafted, but for a try as often as a `share` of the time pays for what it is expected
/// to lose: rarely of what loses much. Where the probability of the next token is known
/// before it is drafted, it takes the place of a_1, a_2, ..., and of what is best on the mean; such
/// a level is copied, and its c is 0. Where another drafter drafts if this one does not, whole
/// steps have to bring more tokens per cost than the `rival`, and to what further levels are held
/// is no less.
///
/// In a batch r counts the rows of one sequence, and all are taken to draft alike.
///
/// A ratio of two means is largest where no step gains by going on at that ratio: the rule of
/// Dinkelbach (1967), for the planner's model of Leviathan et al. 2023, arXiv:2211.17192.
struct cost {
  static constexpr bool needs_entropy = false;

  /// What was tested and what of it was accepted, weighted by age.
  struct tally {
    float tested = 0.0f;
    float passed = 0.0f;

    HUNCH_HOST_DEVICE void add(float accepted, float decay) {
      tested = std::fma(decay, tested, 1.0f);
      passed = std::fma(decay, passed, accepted);
    }
    /// The acceptance, as if `weight` more had been tested with the acceptance `otherwise`.
    HUNCH_HOST_DEVICE double rate(double otherwise, double weight) const {
      return std::fma(weight, otherwise, static_cast<double>(passed)) /
             (static_cast<double>(tested) + weight);
    }
  };

  static constexpr double unlimited = kernel::last_id;
  static constexpr std::int32_t depths = 16;    ///< distinguished; deeper levels are like the last
  static constexpr std::int32_t bins = 8;       ///< of probabilities, equally wide
  static constexpr std::int32_t recorded = 64;  ///< levels of a step whose bins are kept

  struct memory {
    tally all;
    tally at[depths];
    tally like[bins];
    tally sure;               ///< the probabilities of what was tested, in place of passes
    std::int32_t idle = 0;    ///< steps without a draft
    std::uint32_t turn = 0;   ///< from which it is drawn how long such steps last
    double width = 1.0;       ///< rows that a level brings, in a tree
    double most = unlimited;  ///< rows, however many levels there are
    bool foresees = false;    ///< probabilities are known ahead
    // Of this step, written by `begin` and `continues`:
    std::int32_t limit = 0;
    bool step_foresees = false;
    std::int32_t known = 0;  ///< levels whose bins are kept
    double step_width = 1.0;
    double step_most = unlimited;
    double survival = 1.0;
    double rate = 1.0;
    std::int8_t bin[recorded] = {};
  };

  double draft = 0.0;            ///< c: of one level over a target pass with one row
  planner::row_costs rows = {};  ///< r(1), r(2), ...
  double expected = 0.7;         ///< acceptance of a sequence of which nothing is known
  double trust = 8.0;            ///< and how many tests that is worth, above 0
  double decay = 0.98;           ///< weight of the past at each test, in [0, 1)
  double share = 0.0075;         ///< of the time, for tries; 0: none
  std::int32_t at_least = 0;     ///< levels that are drafted whether they pay or not, but for those
                                 ///< whose tokens are known before
  double rival = 0.0;      ///< tokens per cost, of which a pass of the target with one row has 1,
                           ///< that a step brings which another drafter drafts in
  bool calibrated = true;  ///< whether probabilities of drawn tokens are looked at
  bool shares_passes = false;  ///< of a drafter, with sequences that would pay for a try of one of
                               ///< them: then only copies are tried

  HUNCH_HOST_DEVICE std::int32_t begin(memory& m, std::int32_t max_depth) const {
    if (m.all.tested == 0.0f) {
      m.all = {static_cast<float>(trust), static_cast<float>(kernel::product(trust, expected))};
      m.sure = {1.0f, static_cast<float>(usual)};
    }
    const std::int32_t best = plan(m, max_depth);
    m.survival = 1.0;
    m.step_width = m.width;
    m.step_most = m.most;
    m.step_foresees = m.foresees;
    m.known = 0;
    if (best == 0 && !(m.foresees && calibrated)) {
      const bool tried = !shares_passes && tries(m, acceptance_at(m, 0), draft);
      m.limit = kernel::smaller(kernel::larger(at_least, tried ? 1 : 0), max_depth);
    } else {
      m.limit = calibrated ? max_depth : kernel::smaller(kernel::larger(best, at_least), max_depth);
    }
    return m.limit;
  }

  HUNCH_HOST_DEVICE bool continues(memory& m, const length_evidence& e) const {
    const auto now = static_cast<double>(e.rows);
    if (e.depth > 0) { m.step_width = (now - 1.0) / static_cast<double>(e.depth); }
    m.step_most = static_cast<double>(e.max_rows);
    m.step_foresees = e.ahead;
    if (!calibrated) { return true; }
    const double probability = kernel::clamped(e.probability, 0.0, 1.0);
    const std::int32_t of =
        kernel::smaller(static_cast<std::int32_t>(probability * bins), bins - 1);
    const double survival = survival_of(m, m.like[of], probability);
    const std::int32_t level =
        e.ahead ? e.depth : e.depth - 1;  // the level whose probability it is
    if (level < recorded && m.known == level) { m.bin[m.known++] = static_cast<std::int8_t>(of); }
    double chance = e.ahead ? m.survival : kernel::product(m.survival, survival);
    m.survival *= survival;
    // A whole draft is held against what the other one would bring in its place, of which its root
    // brings 1; further levels against what steps bring.
    const bool competes = e.contested && e.depth == 0;
    const double rate = competes      ? kernel::larger(rival, 1.0)
                        : e.contested ? kernel::larger(m.rate, rival)
                                      : m.rate;
    const double level_price = e.ahead ? 0.0 : draft;
    const double owed = competes ? rate - 1.0 : 0.0;
    if (e.ahead ? e.depth == 0 && tries(m, survival, 0.0, owed) : e.depth < at_least) {
      return true;
    }
    double tokens = 0.0;
    for (std::int32_t more = 1; e.depth + more <= m.limit; ++more) {
      chance = kernel::product(chance, e.ahead ? survival : acceptance_at(m, e.depth + more - 1));
      tokens += chance;
      const auto levels = static_cast<double>(more);
      const double then = kernel::smaller(std::fma(levels, m.step_width, now), m.step_most);
      const double price = std::fma(levels, level_price, rows.at(then) - rows.at(now));
      if (tokens > std::fma(rate, price, owed)) { return true; }
    }
    return false;
  }

  HUNCH_HOST_DEVICE void observe(memory& m, std::int32_t drafted,
                                 std::int32_t accepted) const noexcept {
    if (drafted > 0 && m.idle > 0) { m.turn = m.turn * 1664525u + 1013904223u; }
    m.idle = drafted > 0 ? 0 : m.idle + 1;
    m.foresees = m.step_foresees;
    if (drafted > 0) {
      m.width = m.step_width;
      m.most = m.step_most;
    }
    const auto weight = static_cast<float>(decay);
    for (std::int32_t level = 0; level < drafted && level <= accepted; ++level) {
      const float passed = level < accepted ? 1.0f : 0.0f;
      m.all.add(passed, weight);
      m.at[kernel::smaller(level, depths - 1)].add(passed, weight);
      if (level >= m.known) { continue; }
      m.like[m.bin[level]].add(passed, weight);
      m.sure.add((static_cast<float>(m.bin[level]) + 0.5f) / bins, weight);
    }
  }

 private:
  /// Whether it is time for a draft again, whose first token is accepted with this probability:
  /// when the share of the steps without one is what it is expected to lose, times a number in
  /// [0.5, 1.5). A text may have a period, and tries have none.
  /// \param level_price of its level. \param owed what it has to bring besides.
  HUNCH_HOST_DEVICE bool tries(const memory& m, double acceptance, double level_price,
                               double owed = 0.0) const {
    const double price = level_price + (rows.at(1.0 + m.width) - 1.0);
    const double loss = kernel::larger(owed + price - acceptance, 0.02);
    const double drawn = 0.5 + static_cast<double>(m.turn >> 8) * 0x1p-24;
    return kernel::product(share, static_cast<double>(m.idle)) >= kernel::product(loss, drawn) &&
           m.idle > 0;
  }

  /// Tests that the mean over all levels counts for at one depth.
  static constexpr double at_a_depth = 32.0;

  /// Tests that what is expected of a probability counts for in its bin, at first.
  static constexpr double in_a_bin = 8.0;

  /// What a drafter's probability of its tokens is taken for before the first one, on the mean.
  static constexpr double usual = 0.6;

  /// The acceptance of a token of a probability, given that of those in its bin. It fails as often
  /// as the drafter doubts it, times what failures are to doubts on the whole: a good drafter is
  /// better than it thinks. That counts less with every test in the bin, and nothing in the end.
  HUNCH_HOST_DEVICE double survival_of(const memory& m, const tally& bin,
                                       double probability) const {
    const double acceptance = m.all.rate(0.0, 0.0);
    const double doubt = kernel::larger(1.0 - m.sure.rate(0.0, 0.0), 1e-3);
    const double fails = kernel::smaller((1.0 - probability) * (1.0 - acceptance) / doubt, 1.0);
    const double fresh = 1.0 - kernel::product(static_cast<double>(bin.tested), 1.0 - decay);
    return bin.rate(1.0 - fails, kernel::product(in_a_bin, kernel::larger(fresh, 1e-6)));
  }

  HUNCH_HOST_DEVICE static double acceptance_at(const memory& m, std::int32_t level) {
    return m.at[kernel::smaller(level, depths - 1)].rate(m.all.rate(0.0, 0.0), at_a_depth);
  }

  /// The best length if every step had it; sets the tokens per cost that it brings.
  HUNCH_HOST_DEVICE std::int32_t plan(memory& m, std::int32_t max_depth) const {
    const planner::planned_length best =
        planner::best_length([&m](std::int32_t level) { return acceptance_at(m, level); },
                             m.foresees ? 0.0 : draft, max_depth, rows, m.width, m.most);
    m.rate = best.rate;
    return best.length;
  }
};

static_assert(LengthPolicy<cost>);

}  // namespace hunch::length

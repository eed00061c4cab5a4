// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace hunch::length::detail {

/// What steps that might have drafted have emitted and cost, per sequence, in plain steps: sums
/// over those since the text has changed, recent ones for more. It has where the last few lost, and
/// those before gained much more than chance explains, or the other way round.
class findings {
 public:
  /// \param drafts whether the step drafted. \return whether the text has changed.
  bool add(double tokens, double cost, bool drafts) {
    const double gain = tokens - cost;
    all_.add(past, tokens, cost, drafts);
    last_.add(recently, tokens, cost, drafts);
    squares_ = past * squares_ + gain * gain;
    const double usual = all_.gain();
    const double now = last_.gain();
    const double variance = std::max(squares_ / all_.weight - usual * usual, least_variance);
    const bool turned = now * usual < 0.0 && (now - usual) * (now - usual) >= unlikely * variance;
    if (all_.weight < 2.0 * last_.weight || !turned) { return false; }
    squares_ *= last_.weight / all_.weight;
    all_ = last_;
    return true;
  }

  /// Makes all that is known count for less.
  void fade(double by) {
    for (double* sum : {&all_.weight, &all_.drafted, &all_.tokens, &all_.cost, &squares_}) {
      *sum *= by;
    }
  }

  double weight() const { return all_.weight; }    ///< steps
  double drafted() const { return all_.drafted; }  ///< of these
  double tokens() const { return all_.tokens; }
  double cost() const { return all_.cost; }

 private:
  static constexpr double past = 0.98;      ///< weight of a step at the next one
  static constexpr double recently = 0.85;  ///< the same for the last few
  static constexpr double unlikely = 0.5;   ///< of a step's variance, in a mean of the last few
  static constexpr double least_variance = 0.01;

  struct sums {
    double weight = 0.0;
    double drafted = 0.0;
    double tokens = 0.0;
    double cost = 0.0;

    void add(double by, double more_tokens, double more_cost, bool drafts) {
      weight = by * weight + 1.0;
      drafted = by * drafted + (drafts ? 1.0 : 0.0);
      tokens = by * tokens + more_tokens;
      cost = by * cost + more_cost;
    }
    double gain() const { return (tokens - cost) / weight; }
  };

  sums all_;
  sums last_;
  double squares_ = 0.0;  ///< of what was gained
};

}  // namespace hunch::length::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/length/row_costs.hpp>

namespace hunch::planner {

/// \file
/// How much speculation pays, from three measured quantities: alpha, the probability that a draft
/// token is accepted; c, the cost of drafting one token over the cost of one target row; and the
/// row-cost curve r(n), the cost of a target pass over n rows over that of one row. (Leviathan,
/// Kalman, Matias 2023, arXiv:2211.17192, where r is 1.)

/// E[tokens per step] = (1 - alpha^(gamma + 1)) / (1 - alpha), where each of gamma drafts is
/// accepted independently with probability alpha in [0, 1].
inline double expected_tokens(double alpha, std::int32_t gamma) {
  if (alpha >= 1.0) { return gamma + 1.0; }
  return (1.0 - std::pow(alpha, gamma + 1)) / (1.0 - alpha);
}

/// The same from the acceptance by position: accepted[i] is the share of steps in which the i-th
/// draft was accepted, and so all before it, as `statistics::acceptance_at` counts it. E[tokens] is
/// 1 + their sum, whether or not drafts are independent.
inline double expected_tokens(std::span<const double> accepted) {
  return std::accumulate(accepted.begin(), accepted.end(), 1.0);
}

/// The speed-up over plain decoding: E[tokens] / (r(gamma + 1) + gamma c).
inline double walltime_gain(double alpha, std::int32_t gamma, double c,
                            const row_costs& curve = {}) {
  return expected_tokens(alpha, gamma) / (curve.at(gamma + 1) + gamma * c);
}
/// The same by position; gamma is the number of positions.
inline double walltime_gain(std::span<const double> accepted, double c,
                            const row_costs& curve = {}) {
  const auto gamma = static_cast<double>(accepted.size());
  return expected_tokens(accepted) / std::fma(gamma, c, curve.at(gamma + 1.0));
}

/// By how much speculation multiplies the arithmetic operations of a text:
/// (gamma c + gamma + 1) / E[tokens] (the same paper, Theorem 3.11).
/// \param c operations of the drafter for a token over those of the target.
inline double operations_factor(double alpha, std::int32_t gamma, double c) {
  return std::fma(gamma, c, gamma + 1.0) / expected_tokens(alpha, gamma);
}

/// A draft length, and the tokens that it makes while plain decoding makes one.
struct planned_length {
  std::int32_t length = 0;  ///< 0: plain decoding
  double rate = 1.0;
};

/// An acceptance that is the same at every level.
struct same_acceptance {
  double alpha = 0.0;
  HUNCH_HOST_DEVICE double operator()(std::int32_t) const { return alpha; }
};

/// The length in [0, longest] with the largest gain, the smallest on ties.
/// \param acceptance(i) of the i-th level, from 0, where those before it were accepted.
/// \param c of a level. \param curve r.
/// \param width rows that a level brings: 1 in a chain.
/// \param most rows of a step, however many levels there are.
template <class Acceptance>
HUNCH_HOST_DEVICE planned_length best_length(const Acceptance& acceptance, double c,
                                             std::int32_t longest, const row_costs& curve,
                                             double width = 1.0,
                                             double most = kernel::infinity<double>) {
  planned_length best;
  double tokens = 1.0;
  double chance = 1.0;
  for (std::int32_t n = 1; n <= longest; ++n) {
    chance = kernel::product(chance, acceptance(n - 1));
    tokens += chance;
    const auto levels = static_cast<double>(n);
    const double rows = kernel::smaller(std::fma(levels, width, 1.0), most);
    const double rate = tokens / std::fma(levels, c, curve.at(rows));
    if (rate > best.rate) { best = {n, rate}; }
  }
  return best;
}

/// The gamma in [0, max_gamma] with the largest gain, the smallest on ties; 0 is plain decoding.
HUNCH_HOST_DEVICE inline std::int32_t best_draft_length(double alpha, double c,
                                                        std::int32_t max_gamma,
                                                        const row_costs& curve = {}) {
  return best_length(same_acceptance{alpha}, c, max_gamma, curve).length;
}

}  // namespace hunch::planner

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <hunch/core/types.hpp>

namespace hunch::test::papers {

/// What restricting a draft law q to a support S does to the probability that a draft is accepted.
/// With q_S = q / q(S) on S:
///
///   sum over S of min(p, q)  <=  sum over S of min(p, q_S)  <=  min(p(S), the first + 1 - q(S))
///
/// The first, for q_S >= q on S: what the support retains of the acceptance over the whole
/// vocabulary. The second, for min(p, q_S) <= p, and min(p, q_S) - min(p, q) <= q_S - q, whose sum
/// over S is 1 - q(S).
struct support_bounds {
  double lower = 0.0;
  double acceptance = 0.0;
  double upper = 0.0;
};

template <class Real>
support_bounds bounds_of(std::span<const Real> p, std::span<const Real> q,
                         std::span<const token> support) {
  const auto at = [](std::span<const Real> law, token t) {
    return static_cast<double>(law[static_cast<std::size_t>(t)]);
  };
  double of_p = 0.0;
  double of_q = 0.0;
  support_bounds out;
  for (const token t : support) {
    of_p += at(p, t);
    of_q += at(q, t);
    out.lower += std::min(at(p, t), at(q, t));
  }
  for (const token t : support) { out.acceptance += std::min(at(p, t), at(q, t) / of_q); }
  out.upper = std::min(of_p, out.lower + 1.0 - of_q);
  return out;
}

}  // namespace hunch::test::papers

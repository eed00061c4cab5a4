// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <hunch/verifier/longest_path.hpp>
#include <hunch/verifier/verifier.hpp>

namespace hunch::verifier {

/// Typical acceptance: a token is accepted if p(x) > min(epsilon, delta * exp(-H(p))), whatever
/// drafted it; the longest accepted path wins, of equally long ones the most probable. **Not
/// lossless**: probable tokens become more probable. (Medusa: Cai et al. 2024, arXiv:2401.10774)
///
/// Reads the target's row once more for the entropy H, in nats, of each node with children.
struct typical {
  double epsilon = 0.09;
  double delta = 0.3;

  static constexpr bool lossless = false;
  static constexpr bool needs_draft_law = false;
  static constexpr bool needs_greedy = false;
  static constexpr bool shares_noise = false;
  static constexpr bool accepts(child_law, bool) { return true; }

  template <Team T, class View, class Random>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, const View& view,
                                                           const Random& random,
                                                           verdict& out) const {
    kernel::longest_path(team, view, random, out, [&](const auto& p) {
      const double relative = delta * std::exp(-entropy(team, p));
      const double least = relative < epsilon ? relative : epsilon;
      return [=](token, double p_x) { return p_x > least; };
    });
  }

 private:
  template <Team T, class P>
  HUNCH_HOST_DEVICE static double entropy(T& team, const P& p) {
    return team.sum(p.size(), [=](std::int64_t i) {
      using real = typename P::real;
      const real x = p.prob(i);
      return x > real(0) ? kernel::product(x, -std::log(x)) : real(0);
    });
  }
};

static_assert(Verifier<typical>);

}  // namespace hunch::verifier

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/distribution/law.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// What a router could know at best, for measuring: what is lost with an oracle is lost by the
/// clusters and the budget, and what a trained router loses beyond that is its own.

namespace hunch {

/// What `l`, a law without an error over the vocabulary of `layout`, [layout.vocab_size()], gives
/// to each of its clusters; the core and tokens without a row are in none. Nothing if there are no
/// clusters.
/// \param masses [layout.clusters()] out
template <Law L>
void cluster_masses(const L& l, const vocab_layout& layout, float* masses) {
  if (layout.clusters() == 0) { return; }
  std::fill_n(masses, layout.clusters(), 0.0f);
  for (token t = 0; t < layout.vocab_size(); ++t) {
    const std::int32_t cluster = layout.token_part()[t] - 1;
    if (cluster >= 0 && cluster < layout.clusters()) {
      masses[cluster] += static_cast<float>(l.prob(t));
    }
  }
}

namespace router {

/// Routes by the target's own law. A context is the mass of each cluster, as `cluster_masses` gives
/// it, in any unit; whoever measures tells it in the place of what a draft model knows.
struct oracle {
  std::int32_t clusters = 0;
  std::int32_t inputs = 0;
  static constexpr std::int32_t scratch = 0;

  HUNCH_HOST_DEVICE explicit constexpr oracle(std::int32_t c) : clusters(c), inputs(c) {}

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, const float* masses, float*, float* scores) const {
    constexpr float least = 0x1.0p-126f;  // what has a logarithm
    team.for_each(clusters, [=](std::int64_t c) {
      scores[c] = masses[c] < least
                      ? -kernel::infinity<float>
                      : static_cast<float>(kernel::log_of(static_cast<double>(masses[c])));
    });
  }
};

static_assert(Router<oracle>);

}  // namespace router
}  // namespace hunch

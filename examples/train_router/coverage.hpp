// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/selector/clustered.hpp>
#include <hunch/selector/selecting.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/vocab/vocab_layout.hpp>

#include "generate/cluster_budget.hpp"
#include "train_router/recording.hpp"

namespace train_router {

/// Means over positions: how much of the target's law a shortlist holds, and how many rows.
struct coverage {
  double law = 0.0;
  double rows = 0.0;
};

/// Of what `route` and a budget choose at recorded positions; context(i) is what the router reads
/// of position i. What is in no cluster is in the core.
template <hunch::Router R, class Context>
coverage coverage_of(const recording& of, const hunch::vocab_layout& layout, R route,
                     const generate::cluster_budget& budget, const Context& context) {
  hunch::selector::clustered selector{layout, route, budget};
  std::vector<hunch::row_range> ranges(static_cast<std::size_t>(selector.max_ranges()));
  hunch::row_range* const to = ranges.data();
  hunch::executor::host host;
  hunch::selecting chosen{selector, host, 1};
  coverage out;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const float* const known = context(i);
    std::int32_t count = 0;
    chosen.select({.size = 1, .depth = of.depths[i], .tokens = nullptr, .states = &known},
                  {.ranges = &to, .counts = &count});
    out.law += 1.0;
    for (std::int32_t c = 0, r = 0; c < layout.clusters(); ++c) {
      const std::int32_t row = layout.cluster_begin()[c];
      while (r < count && to[r].end <= row) { ++r; }
      const bool held = r < count && to[r].begin <= row;
      out.law -= held ? 0.0 : static_cast<double>(of.mass(i)[c]);
    }
    out.rows += layout.list(to, count).size;
  }
  const double positions = of.size() > 0 ? static_cast<double>(of.size()) : 1.0;
  return {out.law / positions, out.rows / positions};
}

}  // namespace train_router

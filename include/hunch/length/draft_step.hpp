// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace hunch::planner {

/// What one draft step takes where a router chooses its shortlist beside the drafter's layers:
/// embed + max(layers, router) + rows * row (DynaSpec, Zhang et al. 2025, arXiv:2510.13847). Any
/// unit of time; over that of a target pass with one row it is the `c` of the planner.
struct draft_step {
  double embed = 0.0;   ///< what comes before both
  double layers = 0.0;  ///< of the drafter, without its head
  double router = 0.0;  ///< and its choice of clusters
  double row = 0.0;     ///< of the head
  bool beside = true;   ///< false: the router runs after the layers

  /// With a shortlist of so many rows, or a mean of so many.
  double at(double rows) const {
    const double before = beside ? std::fmax(layers, router) : layers + router;
    return std::fma(rows, row, embed + before);
  }
};

}  // namespace hunch::planner

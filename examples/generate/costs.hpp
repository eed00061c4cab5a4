// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/length/cost.hpp>
#include <hunch/length/row_costs.hpp>

namespace generate {

/// What speculation costs with a pair of models on a machine: all that the length of drafts depends
/// on, besides the text.
struct costs {
  hunch::planner::row_costs
      rows;            ///< r(n): a step that verifies n rows per sequence over one row's
  double draft = 0.0;  ///< c: one drafted level over a step of one row
  double alpha = 0.0;  ///< acceptance in the calibration run

  /// The policy that drafts on while it pays.
  hunch::length::cost policy() const { return {.draft = draft, .rows = rows, .expected = alpha}; }
};

}  // namespace generate

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/length/row_costs.hpp>

/// \file
/// Row costs of a target that is a mixture of experts. Its first row reads a few experts of each
/// layer; each further row reads others too, so that drafts cost bytes there that they do not cost
/// a dense target.

namespace hunch::planner {

/// Bytes that a pass reads, of all layers together.
struct expert_bytes {
  double shared = 0.0;       ///< attention, shared experts, head: read once
  double expert = 0.0;       ///< of one expert
  std::int32_t active = 1;   ///< experts that a token activates in a layer
  std::int32_t experts = 1;  ///< that a layer has
};

/// The expected number of experts that n tokens activate together, any choice of them being equally
/// likely: experts (1 - (1 - active / experts)^n). Tokens of one text agree more than that, and
/// activate no more than this.
/// \throws std::invalid_argument unless 1 <= active <= experts.
inline double activated_experts(double n, std::int32_t active, std::int32_t experts) {
  if (active < 1 || active > experts) {
    throw std::invalid_argument(message({"hunch::planner::activated_experts: ", active, " of ",
                                         experts, " experts; at least 1, and no more than all"}));
  }
  const double share = static_cast<double>(active) / static_cast<double>(experts);
  return experts * (1.0 - std::pow(1.0 - share, n));
}

/// r(1) ... r(rows) of a target that is bound by these bytes.
/// \throws std::invalid_argument for what `activated_experts` refuses, and for more rows than
/// `row_costs` has room for.
inline row_costs expert_row_costs(const expert_bytes& of, std::int32_t rows) {
  const auto read = [&](double n) {
    return std::fma(of.expert, activated_experts(n, of.active, of.experts), of.shared);
  };
  std::vector<double> curve;
  for (std::int32_t n = 1; n <= rows; ++n) { curve.push_back(read(n) / read(1.0)); }
  return curve;
}

}  // namespace hunch::planner

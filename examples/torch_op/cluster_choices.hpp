// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/executor/executor.hpp>
#include <hunch/selector/choose_clusters.hpp>
#include <hunch/vocab/budget.hpp>

/// \file
/// The choice of clusters of `selector::clustered` on tensors of scores.

namespace hunch_torch {

/// A budget of clusters and rows, as numbers of the call.
struct cluster_limits {
  std::int32_t most;
  std::int32_t rows;
  bool ranks_per_row;
  HUNCH_HOST_DEVICE constexpr std::int32_t at(std::int32_t) const { return most; }
  HUNCH_HOST_DEVICE constexpr std::int32_t rows_at(std::int32_t) const { return rows; }
};
/// With a share of the router's law that is enough.
struct limits_with_share : cluster_limits {
  float share;
};
static_assert(hunch::ClusterBudget<cluster_limits> && hunch::ClusterBudget<limits_with_share>);

struct cluster_choices {
  std::int32_t batch = 0;
  std::int32_t clusters = 0;
  const std::int32_t* begin = nullptr;  ///< [clusters + 1] first rows
  float* scores = nullptr;              ///< [batch, clusters] edited where `ranks_per_row`
  limits_with_share limits{};
  bool has_share = false;
  hunch::row_range* ranges = nullptr;  ///< [batch, most + 1] out: then empty ones
};

/// Chooses the clusters of row `i` of the scores. One team per row.
template <hunch::ClusterBudget B>
struct choose_for_row {
  cluster_choices args;
  B budget;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const std::int32_t most = args.limits.most + 1;
    hunch::row_range* const ranges = args.ranges + static_cast<std::int64_t>(i) * most;
    const hunch::kernel::choose_clusters<B> choose{args.begin, args.clusters, budget};
    const std::int32_t count =
        choose(team, args.scores + static_cast<std::int64_t>(i) * args.clusters, 0, ranges);
    team.for_each(most - count, [=](std::int64_t r) { ranges[count + r] = {}; });
  }
};

/// Chooses for a batch. Launches one body per row of scores and returns without waiting.
template <hunch::Executor E>
void choose_for_rows(E& executor, const cluster_choices& args) {
  if (args.has_share) {
    executor.launch(args.batch, choose_for_row<limits_with_share>{args, args.limits});
  } else {
    executor.launch(args.batch, choose_for_row<cluster_limits>{args, args.limits});
  }
}

}  // namespace hunch_torch

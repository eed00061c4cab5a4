// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// Scores the clusters for context `i`, and chooses its shortlist by that. One team per context.
template <Router R, ClusterBudget B>
struct route_clusters {
  R router;
  choose_clusters<B> choose;
  selector_contexts contexts;
  selector_lists lists;
  float* workspace;  ///< [capacity, router.scratch]
  float* scores;     ///< [capacity, clusters]
  float* told;       ///< [capacity, clusters] out: the scores, which choosing edits; may be nullptr

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    if (lists.ranges[i] == nullptr) { return; }
    const std::int64_t at = i;
    float* const own = scores + at * choose.clusters;
    router(team, contexts.states[i], workspace + at * router.scratch, own);
    team.sync();  // all scores are there
    if (told != nullptr) {
      float* const to = told + at * choose.clusters;
      team.for_each(choose.clusters, [=](std::int64_t c) { to[c] = own[c]; });
    }
    const std::int32_t count = choose(team, own, contexts.depth, lists.ranges[i]);
    if (team.rank() == 0) { lists.counts[i] = count; }
  }
};

}  // namespace hunch::kernel

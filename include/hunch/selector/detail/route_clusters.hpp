// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/team/team.hpp>

namespace hunch::kernel {

/// The router that is left where the scores are there.
struct routed_ahead {
  std::int32_t clusters = 0;
  std::int32_t inputs = 0;
  std::int32_t scratch = 0;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T&, const float*, float*, float*) const {}
};

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
    float* const own = scores_of(i);
    router(team, contexts.states[i], workspace + at * router.scratch, own);
    team.sync();  // all scores are there
    if (told != nullptr) {
      float* const to = told + at * choose.clusters;
      team.for_each(choose.clusters, [=](std::int64_t c) { to[c] = own[c]; });
    }
    const std::int32_t count = choose(team, own, contexts.depth, lists.ranges[i]);
    if (team.rank() == 0) { lists.counts[i] = count; }
  }

  HUNCH_HOST_DEVICE float* scores_of(std::int32_t i) const {
    return scores + static_cast<std::int64_t>(i) * choose.clusters;
  }
  /// The same for scores that are there.
  route_clusters<routed_ahead, B> routed() const {
    return {.router = {router.clusters, router.inputs, 0},
            .choose = choose,
            .contexts = contexts,
            .lists = lists,
            .workspace = workspace,
            .scores = scores,
            .told = told};
  }
};

}  // namespace hunch::kernel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/selector/choose_clusters.hpp>
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
    row_range* const ranges = lists.ranges[i];
    if (ranges == nullptr) { return; }
    router(team, contexts.states[i], workspace + static_cast<std::int64_t>(i) * router.scratch,
           scores_of(i));
    team.sync();  // all scores are there
    choose_for(team, i, ranges);
  }

  /// The same for scores that are there. Collective.
  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void choose_for(T& team, std::int32_t i,
                                                           row_range* ranges) const {
    float* const own = scores_of(i);
    if (told != nullptr) {
      float* const to = told + static_cast<std::int64_t>(i) * choose.clusters;
      team.for_each(choose.clusters, [=](std::int64_t c) { to[c] = own[c]; });
    }
    const std::int32_t count = choose(team, own, contexts.depth, ranges);
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

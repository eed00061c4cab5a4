// SPDX-License-Identifier: Apache-2.0
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/router.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct route_and_choose;
struct choose_by_rows;
struct choose_by_mass_per_row;
}  // namespace names

/// Routes a context and chooses its clusters, as a selector does.
template <class B>
struct routed {
  router::mlp<bfloat16> route;
  kernel::choose_clusters<B> choose;
  const float* context;
  float* workspace;
  row_range* ranges;
  std::int32_t* count;

  template <Team T>
  HUNCH_HOST_DEVICE HUNCH_INLINE_ON_DEVICE void operator()(T& team, std::int32_t depth) const {
    float* const scores = workspace + route.scratch;
    route(team, context, workspace, scores);
    const std::int32_t found = choose(team, scores, depth, ranges);
    if (team.rank() == 0) { *count = found; }
  }
};

kernel_pointer routers[] = {
    by_block<names::route_and_choose, routed<budget::mass>>(),
    by_cluster<names::route_and_choose, routed<budget::mass>>(),
    by_block<names::choose_by_rows, routed<budget::position_aware<budget::rows>>>(),
    by_block<names::choose_by_mass_per_row, routed<budget::per_row<budget::mass>>>(),
};

}  // namespace hunch::gate

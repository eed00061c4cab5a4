// SPDX-License-Identifier: Apache-2.0
#include <hunch/selector/detail/choose_clusters.hpp>
#include <hunch/selector/detail/route_clusters.hpp>
#include <hunch/selector/detail/unite_lists.hpp>
#include <hunch/selector/detail/weigh_opinions.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct route_and_choose;
struct choose_by_rows;
struct choose_by_mass_per_row;
struct prefixes_by_depth;
struct united_lists;
struct weighed_opinions;
}  // namespace names

template <class B>
using routed = kernel::route_clusters<router::mlp<bfloat16>, B>;
using tapered = selector::prefix_chooser<budget::position_aware<>>;

kernel_pointer routers[] = {
    by_block<names::route_and_choose, routed<budget::mass>>(),
    by_cluster<names::route_and_choose, routed<budget::mass>>(),
    by_block<names::choose_by_rows, routed<budget::position_aware<budget::rows>>>(),
    by_block<names::choose_by_mass_per_row, routed<budget::per_row<budget::mass>>>(),
    by_block<names::prefixes_by_depth, selector::choose_each<tapered>>(),
    by_block<names::united_lists, kernel::unite_lists>(),
    by_block<names::weighed_opinions, kernel::weigh_opinions<float>>(),
};

}  // namespace hunch::gate

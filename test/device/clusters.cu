// SPDX-License-Identifier: Apache-2.0
#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/selector/choose_clusters.hpp>
#include <hunch/selector/detail/layered_router.hpp>
#include <hunch/selector/detail/route_clusters.hpp>
#include <hunch/selector/detail/unite_lists.hpp>
#include <hunch/selector/detail/weigh_opinions.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/selector/selector.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct route_and_choose;
struct hidden_layer;
struct hidden_layer_in_bytes;
struct hidden_layer_in_halves;
struct hidden_layer_in_floats;
struct scores_and_choice;
struct scores_and_choice_by_mass;
struct choose_by_number;
struct choose_by_rows;
struct choose_by_mass_per_row;
struct prefixes_by_depth;
struct united_lists;
struct weighed_opinions;
}  // namespace names

template <class B>
using routed = kernel::route_clusters<router::mlp<bfloat16>, B>;
template <class B>
using chosen = kernel::route_clusters<kernel::routed_ahead, B>;
using tapered = selector::prefix_chooser<budget::position_aware<>>;

kernel_pointer routers[] = {
    by_block<names::route_and_choose, routed<budget::mass>>(),
    by_cluster<names::route_and_choose, routed<budget::mass>>(),
    by_block<names::hidden_layer, kernel::route_hidden<bfloat16>>(),
    by_block<names::hidden_layer_in_bytes, kernel::route_hidden<std::int8_t>>(),
    by_block<names::hidden_layer_in_halves, kernel::route_hidden<float16>>(),
    by_block<names::hidden_layer_in_floats, kernel::route_hidden<float>>(),
    by_block<names::scores_and_choice, kernel::route_scores<bfloat16, budget::position_aware<>>>(),
    by_block<names::scores_and_choice_by_mass, kernel::route_scores<bfloat16, budget::mass>>(),
    by_block<names::choose_by_number, chosen<budget::position_aware<>>>(),
    by_block<names::choose_by_rows, chosen<budget::position_aware<budget::rows>>>(),
    by_block<names::choose_by_mass_per_row, chosen<budget::per_row<budget::mass>>>(),
    by_block<names::prefixes_by_depth, selector::choose_each<tapered>>(),
    by_block<names::united_lists, kernel::unite_lists>(),
    by_block<names::weighed_opinions, kernel::weigh_opinions<float>>(),
};

}  // namespace hunch::gate

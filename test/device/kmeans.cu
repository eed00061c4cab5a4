// SPDX-License-Identifier: Apache-2.0
#include <hunch/tools/detail/kmeans.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct measure_directions;
struct draw_centre;
struct narrow_gaps;
struct assign_rows;
struct move_centre;
}  // namespace names

kernel_pointer clusters[] = {
    by_block<names::measure_directions, kernel::measure_directions<bfloat16>>(),
    by_block<names::draw_centre, kernel::draw_centre<bfloat16>>(),
    by_block<names::narrow_gaps, kernel::narrow_gaps<bfloat16>>(),
    by_block<names::assign_rows, kernel::assign_rows<bfloat16>>(),
    by_block<names::move_centre, kernel::move_centre<bfloat16>>(),
};

}  // namespace hunch::gate

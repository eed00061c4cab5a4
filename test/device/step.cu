// SPDX-License-Identifier: Apache-2.0
#include <hunch/decoder/detail/repeat_bodies.hpp>
#include <hunch/decoder/detail/step_bodies.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct bound_drafts;
struct cleared_slots;
struct take_arrivals;
struct begin_step;
struct place_rows;
struct drop_target_rows;
struct slot_law;
struct decide_by_point_mass;
struct decide_on_a_tree;
struct decide_greedily;
struct report_emitted;
struct end_step;
struct end_counted_step;
struct begin_run;
struct decide_repeat;
}  // namespace names

constexpr int nodes = 6;
template <class S, class V, bool IsChain>
using deciding = kernel::decide_slot<kernel::slot_view<float, S, nodes, IsChain, false>, float, S,
                                     V, source, nodes>;

kernel_pointer step[] = {
    by_block<names::take_arrivals, take_arrivals>(),
    by_block<names::bound_drafts, bound_drafts>(),
    by_block<names::cleared_slots, clear_slots<sequence>>(),
    by_block<names::begin_step, kernel::begin_step<float, nodes>>(),
    by_block<names::place_rows, kernel::place_rows<float, plain, nodes>>(),
    by_block<names::drop_target_rows, kernel::drop_target_rows<float, nodes>>(),
    by_block<names::slot_law, kernel::make_slot_laws<float, plain, nodes>>(),
    by_block<names::decide_by_point_mass, deciding<plain, verifier::point_mass, true>>(),
    by_cluster<names::decide_by_point_mass, deciding<plain, verifier::point_mass, true>>(),
    by_block<names::decide_on_a_tree, deciding<plain, verifier::point_mass, false>>(),
    by_cluster<names::decide_on_a_tree, deciding<plain, verifier::point_mass, false>>(),
    by_block<names::decide_greedily, deciding<sampler::greedy, verifier::greedy, true>>(),
    by_block<names::report_emitted, kernel::report_emitted<float, nodes>>(),
    by_block<names::end_step, kernel::end_step<float, nodes, false>>(),
    by_block<names::end_counted_step, kernel::end_step<float, nodes, true>>(),
    by_block<names::begin_run, kernel::begin_run>(),
    by_block<names::decide_repeat, kernel::decide_repeat<executor::detail::loop_condition>>(),
};

}  // namespace hunch::gate

// SPDX-License-Identifier: Apache-2.0
#include <hunch/resident/drafting.hpp>
#include <hunch/resident/lookup.hpp>
#include <hunch/resident/routing.hpp>
#include <hunch/resident/step.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct plant_root;
struct plant_match;
struct begin_chain;
struct grow_chain;
struct add_bias;
struct choose_list;
struct place_rows;
struct resident_law;
struct end_step_by_point_mass;
struct end_step_greedily;
struct decide_repeat;
}  // namespace names

constexpr int nodes = 6;
using chooser = selector::prefix_chooser<>;
using scored = resident::scored_chooser<budget::per_row<budget::rows>>;
using draw = child_draw<source, false>;

kernel_pointer resident_step[] = {
    by_block<names::plant_root, resident::plant_root<float>>(),
    by_block<names::plant_match, resident::plant_match<float, 4>>(),
    by_cluster<names::plant_match, resident::plant_match<float, 4>>(),
    by_block<names::begin_chain, resident::begin_chain<float, chooser>>(),
    by_block<names::grow_chain, resident::grow_chain<float, chooser, plain, draw>>(),
    by_block<names::add_bias, resident::add_bias>(),
    by_block<names::choose_list, resident::choose_list<float, scored>>(),
    by_block<names::place_rows, resident::place_rows<float, plain, nodes>>(),
    by_block<names::resident_law, resident::make_laws<float, plain, nodes>>(),
    by_block<names::end_step_by_point_mass,
             resident::end_step<float, plain, verifier::point_mass, source, nodes>>(),
    by_cluster<names::end_step_by_point_mass,
               resident::end_step<float, plain, verifier::point_mass, source, nodes>>(),
    by_block<names::end_step_greedily,
             resident::end_step<float, sampler::greedy, verifier::greedy, source, nodes>>(),
    by_block<names::decide_repeat, resident::decide_repeat>(),
};

}  // namespace hunch::gate

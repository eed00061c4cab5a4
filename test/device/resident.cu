// SPDX-License-Identifier: Apache-2.0
#include <hunch/resident/step.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/selector/detail/layered_router.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct gather_contexts;
struct add_bias;
struct begin_step;
struct place_rows;
struct resident_law;
struct end_step_by_point_mass;
struct end_step_of_a_tree;
struct end_step_greedily;
struct keep_rows;
struct decide_repeat;
}  // namespace names

constexpr int nodes = 6;
template <class S, class Tokens>
using view = verify_view<resident::slot_laws<float, S, nodes>, stored_drafts<law<float>>, Tokens>;
template <class S, class V, class Tokens>
using ending = resident::end_step<view<S, Tokens>, float, S, V, source, nodes>;

kernel_pointer resident_step[] = {
    by_block<names::gather_contexts, selector::gather_contexts>(),
    by_block<names::add_bias, selector::add_bias>(),
    by_block<names::begin_step, resident::begin_step<float, nodes>>(),
    by_block<names::place_rows, resident::place_rows<float, plain, nodes>>(),
    by_block<names::resident_law, resident::make_laws<float, plain, nodes>>(),
    by_block<names::end_step_by_point_mass, ending<plain, verifier::point_mass, chain_tokens>>(),
    by_cluster<names::end_step_by_point_mass, ending<plain, verifier::point_mass, chain_tokens>>(),
    by_block<names::end_step_of_a_tree, ending<plain, verifier::point_mass, drafted_tokens>>(),
    by_cluster<names::end_step_of_a_tree, ending<plain, verifier::point_mass, drafted_tokens>>(),
    by_block<names::end_step_greedily, ending<sampler::greedy, verifier::greedy, chain_tokens>>(),
    by_block<names::keep_rows, resident::keep_rows<float, nodes>>(),
    by_block<names::decide_repeat, resident::decide_repeat>(),
};

}  // namespace hunch::gate

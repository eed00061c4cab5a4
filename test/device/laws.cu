// SPDX-License-Identifier: Apache-2.0
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct law_of_a_row;
struct law_of_a_row_in_double;
struct argmax_of_a_row;
struct draw_of_a_child;
struct draw_with_shared_noise;
struct log_probabilities;
}  // namespace names

kernel_pointer laws[] = {
    by_block<names::law_of_a_row, kernel::make_laws<float, plain>>(),
    by_cluster<names::law_of_a_row, kernel::make_laws<float, plain>>(),
    by_block<names::law_of_a_row_in_double, kernel::make_laws<double, plain>>(),
    by_block<names::argmax_of_a_row, kernel::make_laws<float, sampler::greedy>>(),
    by_block<names::draw_of_a_child,
             kernel::draw_children<float, plain, child_draw<source, false>>>(),
    by_cluster<names::draw_of_a_child,
               kernel::draw_children<float, plain, child_draw<source, false>>>(),
    by_block<names::draw_with_shared_noise,
             kernel::draw_children<float, plain, child_draw<source, true>>>(),
    by_block<names::log_probabilities, kernel::report_log_probabilities<float>>(),
};

}  // namespace hunch::gate

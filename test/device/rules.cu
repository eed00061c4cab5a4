// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct verify_by_block;
struct verify_coupled;
struct verify_greedily;
struct verify_by_point_mass;
struct verify_by_top_k;
struct verify_typical;
}  // namespace names

kernel_pointer rules[] = {
    by_block<names::verify_by_block, verified<verifier::block>>(),
    by_block<names::verify_coupled, verified<verifier::coupled>>(),
    by_block<names::verify_greedily, verified<verifier::greedy>>(),
    by_block<names::verify_by_point_mass, verified<verifier::point_mass>>(),
    by_block<names::verify_by_top_k, verified<verifier::top_k>>(),
    by_block<names::verify_typical, verified<verifier::typical>>(),
};

}  // namespace hunch::gate

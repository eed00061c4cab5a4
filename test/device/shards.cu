// SPDX-License-Identifier: Apache-2.0
// Kernels of bodies whose rows are divided among ranks: a gate by itself, see shards.sh.
#include <hunch/decoder/detail/step_bodies.hpp>
#include <hunch/executor/detail/shard_kernel.cuh>
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/rejection.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct law_of_shards;
struct argmax_of_shards;
struct law_of_shards_through_all_stages;
struct slot_law_of_shards;
struct coupled_on_shards;
struct greedily_on_shards;
struct by_rejection_on_laws_of_shards;
struct coupled_on_laws_of_shards;
struct chain_by_rejection_on_shards;
struct tree_by_rejection_on_shards;
struct report_of_shards;
}  // namespace names

template <class Name, class Body>
kernel_pointer by_rank() {
  return reinterpret_cast<kernel_pointer>(executor::detail::run_sharded_body<named<Name, Body>>);
}

constexpr int nodes = 6;
template <class V, bool IsChain>
using deciding = kernel::decide_slot<kernel::slot_view<float, plain, nodes, IsChain, false, true>,
                                     float, plain, V, source, nodes>;

kernel_pointer shards[] = {
    by_rank<names::law_of_shards, kernel::make_laws<float, plain>>(),
    by_rank<names::argmax_of_shards, kernel::make_laws<float, sampler::greedy>>(),
    by_rank<names::law_of_shards_through_all_stages, kernel::make_laws<float, stages>>(),
    by_rank<names::slot_law_of_shards, kernel::make_slot_laws<float, plain, nodes>>(),
    by_rank<names::coupled_on_shards, deciding<verifier::coupled, true>>(),
    by_rank<names::by_rejection_on_laws_of_shards, verified<verifier::rejection>>(),
    by_rank<names::coupled_on_laws_of_shards, verified<verifier::coupled>>(),
    by_rank<names::greedily_on_shards, verified<verifier::greedy>>(),
    by_rank<names::chain_by_rejection_on_shards, deciding<verifier::rejection, true>>(),
    by_rank<names::tree_by_rejection_on_shards, deciding<verifier::rejection, false>>(),
    by_rank<names::report_of_shards, kernel::report_emitted<float, nodes>>(),
};

}  // namespace hunch::gate

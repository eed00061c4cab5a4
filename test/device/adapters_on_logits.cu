// SPDX-License-Identifier: Apache-2.0
#include <hunch/core/bfloat16.hpp>
#include <hunch/interop/text_census.hpp>
#include <hunch/interop/vllm_logits.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct vllm_laws;
struct vllm_laws_of_bfloats;
struct vllm_laws_through_stages;
struct vllm_laws_of_bfloats_through_stages;
struct vllm_logits;
struct vllm_logits_by_block;
struct vllm_logits_of_bfloats;
struct vllm_logits_without_draft_law;
struct vllm_logits_on_demand;
struct vllm_logits_on_demand_through_stages;
struct vllm_logits_of_bfloats_on_demand;
struct vllm_logits_on_demand_by_block;
struct prompts_of_an_engine;
struct tokens_of_an_engine;
}  // namespace names

using namespace interop;

template <class Real, class S, class V>
using of_request = vllm::verify_request<Real, S, V, source, true>;

kernel_pointer adapters_on_logits[] = {
    by_block<names::vllm_laws, vllm::request_laws<float, scaled_logits>>(),
    by_cluster<names::vllm_laws, vllm::request_laws<float, scaled_logits>>(),
    by_block<names::vllm_laws_of_bfloats, vllm::request_laws<bfloat16, scaled_logits>>(),
    by_block<names::vllm_laws_through_stages, vllm::request_laws<float, sampled_logits>>(),
    by_cluster<names::vllm_laws_through_stages, vllm::request_laws<float, sampled_logits>>(),
    by_block<names::vllm_laws_of_bfloats_through_stages,
             vllm::request_laws<bfloat16, sampled_logits>>(),
    by_block<names::vllm_logits, of_request<float, void, verifier::rejection>>(),
    by_cluster<names::vllm_logits, of_request<float, void, verifier::rejection>>(),
    by_block<names::vllm_logits_by_block, of_request<float, void, verifier::block>>(),
    by_block<names::vllm_logits_of_bfloats, of_request<bfloat16, void, verifier::rejection>>(),
    by_block<names::vllm_logits_without_draft_law,
             vllm::verify_request<float, void, verifier::rejection, source, false>>(),
    by_block<names::vllm_logits_on_demand, of_request<float, scaled_logits, verifier::rejection>>(),
    by_cluster<names::vllm_logits_on_demand,
               of_request<float, scaled_logits, verifier::rejection>>(),
    by_block<names::vllm_logits_on_demand_through_stages,
             of_request<float, sampled_logits, verifier::rejection>>(),
    by_block<names::vllm_logits_of_bfloats_on_demand,
             of_request<bfloat16, scaled_logits, verifier::rejection>>(),
    by_block<names::vllm_logits_on_demand_by_block,
             of_request<float, scaled_logits, verifier::block>>(),
    by_block<names::prompts_of_an_engine, count_text<true>>(),
    by_block<names::tokens_of_an_engine, count_text<false>>(),
};

}  // namespace hunch::gate

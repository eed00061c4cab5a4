// SPDX-License-Identifier: Apache-2.0
#include <hunch/interop/flashinfer.hpp>
#include <hunch/interop/sglang.hpp>
#include <hunch/interop/vllm.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct flashinfer_chain;
struct sglang_target_only;
struct sglang_greedy;
struct sglang_build_tree;
struct vllm_rejection;
struct vllm_rejection_without_draft_law;
}  // namespace names

using namespace interop;

kernel_pointer adapters[] = {
    by_block<
        names::flashinfer_chain,
        flashinfer::chain_body<float, random_source<given_uniforms<flashinfer::chain_uniforms>>>>(),
    by_cluster<
        names::flashinfer_chain,
        flashinfer::chain_body<float, random_source<given_uniforms<flashinfer::chain_uniforms>>>>(),
    by_block<names::sglang_target_only,
             sglang::target_only_body<float, random_source<sglang::tree_uniforms>>>(),
    by_cluster<names::sglang_target_only,
               sglang::target_only_body<float, random_source<sglang::tree_uniforms>>>(),
    by_block<names::sglang_greedy, sglang::greedy_body>(),
    by_block<names::sglang_build_tree, sglang::build_tree_body>(),
    by_block<names::vllm_rejection, vllm::rejection_body<float, source, true>>(),
    by_block<names::vllm_rejection_without_draft_law,
             vllm::rejection_body<float, random_source<vllm::ragged_uniforms>, false>>(),
};

}  // namespace hunch::gate

// SPDX-License-Identifier: Apache-2.0
#include <hunch/interop/vllm_logits.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/rejection.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct vllm_logits;
struct vllm_logits_by_block;
struct vllm_logits_without_draft_law;
}  // namespace names

kernel_pointer adapters_on_logits[] = {
    by_block<names::vllm_logits,
             interop::vllm::logits_body<float, verifier::rejection, source, true>>(),
    by_block<names::vllm_logits_by_block,
             interop::vllm::logits_body<float, verifier::block, source, true>>(),
    by_block<names::vllm_logits_without_draft_law,
             interop::vllm::logits_body<float, verifier::rejection, source, false>>(),
};

}  // namespace hunch::gate

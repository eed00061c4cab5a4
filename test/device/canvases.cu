// SPDX-License-Identifier: Apache-2.0
#include <hunch/diffusion/drafter/detail/choose_writes.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/diffusion/verifier/verify_writes.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct digest_of_a_position;
struct digest_of_a_position_by_entropy;
struct digest_of_a_position_by_place;
struct choose_writes;
struct verify_writes_exactly;
struct verify_writes_by_top_k;
}  // namespace names

template <class O>
using view = diffusion::drafts_view<diffusion::position_digests<float, plain, O, source>>;
template <class O>
using digests = kernel::digest_positions<view<O>>;
template <class V>
using writes = kernel::verify_writes<view<diffusion::order::confidence>, V>;

kernel_pointer canvases[] = {
    by_block<names::digest_of_a_position, digests<diffusion::order::confidence>>(),
    by_cluster<names::digest_of_a_position, digests<diffusion::order::confidence>>(),
    by_block<names::digest_of_a_position_by_entropy, digests<diffusion::order::entropy>>(),
    by_block<names::digest_of_a_position_by_place, digests<diffusion::order::left_to_right>>(),
    by_block<names::choose_writes, kernel::choose_writes<view<diffusion::order::confidence>>>(),
    by_cluster<names::choose_writes, kernel::choose_writes<view<diffusion::order::confidence>>>(),
    by_block<names::verify_writes_exactly, writes<diffusion::verifier::stepwise_exact>>(),
    by_cluster<names::verify_writes_exactly, writes<diffusion::verifier::stepwise_exact>>(),
    by_block<names::verify_writes_by_top_k, writes<diffusion::verifier::top_k>>(),
};

}  // namespace hunch::gate

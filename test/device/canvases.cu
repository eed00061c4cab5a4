// SPDX-License-Identifier: Apache-2.0
#include <hunch/diffusion/drafter/choose_unmaskings.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct digest_of_a_position;
struct digest_of_a_position_by_entropy;
struct digest_of_a_position_by_place;
struct choose_unmaskings;
struct verify_unmaskings_exactly;
struct verify_unmaskings_by_top_k;
}  // namespace names

template <class O>
using view = diffusion::drafts_view<diffusion::position_digests<float, plain, O, source>>;
template <class O>
using digests = kernel::digest_positions<view<O>>;
template <class V>
using unmaskings = kernel::verify_unmaskings<view<diffusion::order::confidence>, V>;

kernel_pointer canvases[] = {
    by_block<names::digest_of_a_position, digests<diffusion::order::confidence>>(),
    by_cluster<names::digest_of_a_position, digests<diffusion::order::confidence>>(),
    by_block<names::digest_of_a_position_by_entropy, digests<diffusion::order::entropy>>(),
    by_block<names::digest_of_a_position_by_place, digests<diffusion::order::left_to_right>>(),
    by_block<names::choose_unmaskings,
             kernel::choose_unmaskings<view<diffusion::order::confidence>>>(),
    by_cluster<names::choose_unmaskings,
               kernel::choose_unmaskings<view<diffusion::order::confidence>>>(),
    by_block<names::verify_unmaskings_exactly, unmaskings<diffusion::verifier::stepwise_exact>>(),
    by_cluster<names::verify_unmaskings_exactly, unmaskings<diffusion::verifier::stepwise_exact>>(),
    by_block<names::verify_unmaskings_by_top_k, unmaskings<diffusion::verifier::top_k>>(),
};

}  // namespace hunch::gate

// SPDX-License-Identifier: Apache-2.0
#include <hunch/diffusion/detail/round_bodies.hpp>
#include <hunch/diffusion/drafter/choose_unmaskings.hpp>
#include <hunch/diffusion/drafter/detail/canvas_pass.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/diffusion/order/confidence.hpp>
#include <hunch/diffusion/order/entropy.hpp>
#include <hunch/diffusion/order/left_to_right.hpp>
#include <hunch/diffusion/verifier/stepwise_exact.hpp>
#include <hunch/diffusion/verifier/top_k.hpp>
#include <hunch/diffusion/verifier/verify_unmaskings.hpp>
#include <hunch/length/confidence.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct digest_of_a_position;
struct digest_of_a_position_by_entropy;
struct digest_of_a_position_by_place;
struct choose_unmaskings;
struct verify_unmaskings_exactly;
struct verify_unmaskings_by_top_k;
struct begin_round;
struct begin_round_by_a_model;
struct begin_round_under_a_cache;
struct draft_next;
struct choose_canvases;
struct choose_canvases_of_a_model;
struct place_canvases;
struct place_wanted;
struct end_round;
struct end_round_of_a_head;
}  // namespace names

template <class O>
using digests_by = diffusion::position_digests<float, plain, O, source>;
template <class O>
using view = diffusion::drafts_view<digests_by<O>>;
template <class O>
using digests = kernel::digest_positions<view<O>>;
template <class V>
using unmaskings = kernel::verify_unmaskings<view<diffusion::order::confidence>, V>;

using some_digests = digests_by<diffusion::order::confidence>;
using some_view = view<diffusion::order::confidence>;
template <bool ByModel, bool Observe, bool CachesBlocks, class Drafting>
using round_of = diffusion::round_arrays<diffusion::round_parts<4, ByModel, Observe, CachesBlocks>,
                                         some_digests, length::confidence, Drafting>;
using by_itself = round_of<false, false, false, diffusion::no_drafting_passes::arrays_type>;
using under_a_cache = round_of<false, false, true, diffusion::no_drafting_passes::arrays_type>;
using by_model = round_of<true, false, false, diffusion::drafting_arrays<some_digests>>;
using by_head = round_of<true, true, false, diffusion::drafting_arrays<some_digests>>;

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
    by_block<names::begin_round, kernel::begin_round<by_itself>>(),
    by_block<names::begin_round_by_a_model, kernel::begin_round<by_model>>(),
    by_block<names::begin_round_under_a_cache, kernel::begin_round<under_a_cache>>(),
    by_block<names::draft_next, kernel::draft_next<by_model, some_view>>(),
    by_cluster<names::draft_next, kernel::draft_next<by_model, some_view>>(),
    by_block<names::choose_canvases, kernel::choose_canvases<by_itself>>(),
    by_block<names::choose_canvases_of_a_model, kernel::choose_canvases<by_model>>(),
    by_block<names::place_canvases, kernel::place_canvases<some_digests>>(),
    by_block<names::place_wanted, kernel::place_wanted<some_digests>>(),
    by_block<names::end_round, kernel::end_round<under_a_cache>>(),
    by_block<names::end_round_of_a_head, kernel::end_round<by_head>>(),
};

}  // namespace hunch::gate

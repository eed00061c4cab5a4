// SPDX-License-Identifier: Apache-2.0

// A step of each length policy, as bodies call it.

#include <cstdint>

#include <hunch/drafter/length_slots.hpp>
#include <hunch/length/confidence.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/ewma.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/length/length.hpp>
#include <hunch/length/metered.hpp>
#include <hunch/length/one_of.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct length_by_confidence;
struct length_by_cost;
struct length_by_entropy;
struct length_by_ewma;
struct length_fixed;
struct length_of_any;
struct length_by_a_meter;
struct observed_lengths;
}  // namespace names

/// Drafts of evidence that is known beforehand.
template <class L>
struct drafted_length {
  drafter::slot_lengths<L> lengths;
  const length_evidence* evidence;  ///< [slots]
  std::int32_t max_depth;
  std::int32_t accepted;
  std::int32_t* levels;  ///< [slots] out

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t slot) const {
    if (team.rank() != 0) { return; }
    bool more = lengths.begin(slot, max_depth) > 0;
    while (more) { more = lengths.drew(slot) && lengths.continues(slot, evidence[slot]); }
    levels[slot] = lengths.levels(slot);
    lengths.observe(slot, accepted, max_depth);
  }
};

using any_length = length::one_of<length::fixed, length::cost, length::ewma, length::metered>;

kernel_pointer lengths[] = {
    by_block<names::length_fixed, drafted_length<length::fixed>>(),
    by_block<names::length_by_confidence, drafted_length<length::confidence>>(),
    by_block<names::length_by_entropy, drafted_length<length::entropy>>(),
    by_block<names::length_by_ewma, drafted_length<length::ewma>>(),
    by_block<names::length_by_cost, drafted_length<length::cost>>(),
    by_block<names::length_of_any, drafted_length<any_length>>(),
    by_block<names::length_by_a_meter, drafted_length<length::metered>>(),
    by_block<names::observed_lengths, drafter::observe_lengths<length::cost>>(),
};

}  // namespace hunch::gate

// All of it, what hosts call included: a device compiler refuses some of what others take.
template class hunch::length::one_of<hunch::length::fixed, hunch::length::cost, hunch::length::ewma,
                                     hunch::length::metered>;

// SPDX-License-Identifier: Apache-2.0

// Bodies over rows of 16-bit logits.

#include <hunch/core/logit.hpp>
#include <hunch/distribution/log_probabilities.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/verify_rows.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct law_of_bfloats;
struct law_of_halves;
struct law_of_bfloats_through_all_stages;
struct law_of_halves_through_all_stages;
struct argmax_of_bfloats;
struct children_of_bfloats;
struct noisy_children_of_bfloats;
struct ranked_children_of_bfloats;
struct evidence_of_bfloats;
struct log_probabilities_of_bfloats;
struct residual_sum_of_bfloats;
struct rejection_on_bfloats;
struct rejection_on_halves;
struct block_on_bfloats;
struct coupled_on_bfloats;
}  // namespace names

template <class Logit, class V>
using verified_on = kernel::verify_sequences<logits_view<Logit>, V, source>;

/// The sum of what a rejected draft leaves, where both laws range over everything.
struct residual_of_bfloats {
  law<bfloat16> p;
  law<bfloat16> q;
  double* to;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    using whole = whole_law<bfloat16>;
    const kernel::residual<whole, whole, kernel::list_kind::everything> weight{
        whole(p), whole(q), {}};
    const double sum = team.sum(p.size(), weight);
    if (team.rank() == 0) { *to = sum; }
  }
};

kernel_pointer on_halves[] = {
    by_block<names::law_of_bfloats, kernel::make_laws<bfloat16, plain>>(),
    by_cluster<names::law_of_bfloats, kernel::make_laws<bfloat16, plain>>(),
    by_block<names::law_of_halves, kernel::make_laws<float16, plain>>(),
    by_block<names::law_of_bfloats_through_all_stages, kernel::make_laws<bfloat16, stages>>(),
    by_cluster<names::law_of_bfloats_through_all_stages, kernel::make_laws<bfloat16, stages>>(),
    by_block<names::law_of_halves_through_all_stages, kernel::make_laws<float16, stages>>(),
    by_block<names::argmax_of_bfloats, kernel::make_laws<bfloat16, sampler::greedy>>(),
    by_block<names::children_of_bfloats,
             kernel::draw_children<bfloat16, plain, child_draw<source, false>, 4>>(),
    by_block<names::noisy_children_of_bfloats,
             kernel::draw_children<bfloat16, plain, child_draw<source, true>>>(),
    by_block<names::ranked_children_of_bfloats, kernel::rank_children<bfloat16, plain>>(),
    by_block<names::evidence_of_bfloats, kernel::report_evidence<bfloat16>>(),
    by_block<names::log_probabilities_of_bfloats, kernel::report_log_probabilities<bfloat16>>(),
    by_block<names::residual_sum_of_bfloats, residual_of_bfloats>(),
    by_cluster<names::residual_sum_of_bfloats, residual_of_bfloats>(),
    by_block<names::rejection_on_bfloats, verified_on<bfloat16, verifier::rejection>>(),
    by_cluster<names::rejection_on_bfloats, verified_on<bfloat16, verifier::rejection>>(),
    by_block<names::rejection_on_halves, verified_on<float16, verifier::rejection>>(),
    by_block<names::block_on_bfloats, verified_on<bfloat16, verifier::block>>(),
    by_block<names::coupled_on_bfloats, verified_on<bfloat16, verifier::coupled>>(),
};

}  // namespace hunch::gate

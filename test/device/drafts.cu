// SPDX-License-Identifier: Apache-2.0
#include <hunch/distribution/race_source.hpp>
#include <hunch/draft/ancestor_masks.hpp>
#include <hunch/draft/draft_evidence.hpp>
#include <hunch/draft/draw_children.hpp>
#include <hunch/draft/find_match.hpp>
#include <hunch/draft/grow_dynamic.hpp>
#include <hunch/draft/prune_tree.hpp>
#include <hunch/draft/rank_children.hpp>
#include <hunch/draft/tree_links.hpp>
#include <hunch/model/full_logits.hpp>
#include <hunch/model/other_vocabulary.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct children_of_a_row;
struct expansion;
struct evidence_of_a_draw;
struct gathered_row;
struct gathered_row_of_bfloats;
struct links_of_a_tree;
struct masks_of_a_tree;
struct match_of_a_text;
struct match_of_sixteen;
struct noisy_children_of_a_row;
struct pruned_tree;
struct racing_children_of_a_row;
struct ranked_children;
struct ranked_children_with_stages;
struct re_ranking;
struct translated_tokens;
struct weighed_transitions;
struct weighed_transitions_with_stages;
}  // namespace names

using draw = child_draw<source, false>;
using racing_draw = child_draw<race_source<>, false>;
using noisy_draw = child_draw<source, true>;

kernel_pointer drafts[] = {
    by_block<names::children_of_a_row, kernel::draw_children<float, plain, draw, 4>>(),
    by_block<names::noisy_children_of_a_row, kernel::draw_children<float, plain, noisy_draw, 4>>(),
    by_block<names::racing_children_of_a_row,
             kernel::draw_children<float, plain, racing_draw, 4>>(),
    by_block<names::ranked_children, kernel::rank_children<float, plain>>(),
    by_block<names::ranked_children_with_stages, kernel::rank_children<float, stages>>(),
    by_block<names::expansion, kernel::expand_dynamic>(),
    by_block<names::re_ranking, kernel::keep_best>(),
    by_block<names::weighed_transitions, kernel::weigh_transitions<float, plain>>(),
    by_block<names::weighed_transitions_with_stages, kernel::weigh_transitions<float, stages>>(),
    by_block<names::pruned_tree, kernel::prune_tree>(),
    by_block<names::evidence_of_a_draw, kernel::report_evidence<float>>(),
    by_cluster<names::evidence_of_a_draw, kernel::report_evidence<float>>(),
    by_block<names::links_of_a_tree, kernel::link_tree>(),
    by_block<names::masks_of_a_tree, kernel::mark_ancestors>(),
    by_block<names::translated_tokens, kernel::translate_tokens>(),
    by_block<names::gathered_row, kernel::gather_logits<float, float>>(),
    by_cluster<names::gathered_row, kernel::gather_logits<float, float>>(),
    by_block<names::gathered_row_of_bfloats, kernel::gather_logits<float, bfloat16>>(),
    by_block<names::match_of_a_text, kernel::find_match<4>>(),
    by_cluster<names::match_of_a_text, kernel::find_match<4>>(),
    by_block<names::match_of_sixteen, kernel::find_match<16>>(),
};

}  // namespace hunch::gate

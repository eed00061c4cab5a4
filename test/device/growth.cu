// SPDX-License-Identifier: Apache-2.0

// What grows draft trees level by level, and what draft models read in a step.

#include <cstdint>

#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/cascade.hpp>
#include <hunch/drafter/ensemble.hpp>
#include <hunch/drafter/heads.hpp>
#include <hunch/drafter/lookup.hpp>
#include <hunch/drafter/pruned.hpp>
#include <hunch/executor/in_order.hpp>
#include <hunch/length/cost.hpp>
#include <hunch/length/entropy.hpp>
#include <hunch/length/fixed.hpp>
#include <hunch/selector/selector.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/tree/dynamic.hpp>
#include <hunch/tree/fixed.hpp>
#include <hunch/tree/sampled.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct asks_of_a_level;
struct lists_of_a_level;
struct ranges_of_a_level;
struct common_row_copies;
struct states_of_kept_nodes;
struct chain_level;
struct lent_chain_level;
struct sampled_level;
struct sampled_level_by_cost;
struct common_sampled_level;
struct ranked_level;
struct plain_ranked_level;
struct ranked_level_by_entropy;
struct common_ranked_level;
struct end_of_a_chain_level;
struct end_of_a_fixed_level;
struct end_of_a_dynamic_level;
struct end_of_a_level_by_cost;
struct end_of_a_dynamic_tree;
struct plan_of_a_model;
struct missed_tokens;
struct kept_missed_tokens;
struct committed_tokens;
struct rows_without_room;
struct frontier_rows;
struct first_of_a_chain;
struct next_of_a_chain;
struct first_of_a_dynamic_tree;
struct next_of_a_dynamic_tree;
struct last_of_a_dynamic_tree;
struct kept_tokens;
struct forgotten_tokens;
struct plan_of_heads;
struct inputs_of_heads;
struct copied_match;
struct prunable_rows;
struct asked_transitions;
struct weighed_children;
struct pruned_drafts;
struct merged_drafts;
struct shared_outcomes;
struct passed_turns;
struct told_drafters;
}  // namespace names

inline constexpr tree::choices some{{0}, {1}, {0, 0}, {0, 2}, {1, 1}};

template <class Tree, class Policy = length::fixed,
          drafter::level_logits Logits = drafter::level_logits::own>
using grown = drafter::growing<Tree, Policy, float, Logits>;
template <class Tree, class Policy = length::fixed>
using grown_ahead = grown<Tree, Policy, drafter::level_logits::common>;

using chain = tree::chain<5>;
using sampled = tree::sampled<4, 2, 2, 1>;
using eagle = tree::dynamic<10, 6, 60>;
using draw = child_draw<source, false>;
template <class Tree, class Policy = length::fixed>
using step_of = drafter::model_step<grown<Tree, Policy>>;
using stepped = step_of<eagle, length::cost>;
using prefixes = selector::choose_each<selector::prefix_chooser<>>;

kernel_pointer growth[] = {
    by_block<names::asks_of_a_level, drafter::ask_level<grown<eagle>>>(),
    by_block<names::lists_of_a_level, drafter::list_level<grown<eagle>, false>>(),
    by_block<names::ranges_of_a_level, drafter::list_level<grown<eagle>, true>>(),
    by_block<names::states_of_kept_nodes, drafter::keep_states>(),
    by_block<names::common_row_copies, drafter::copy_level<grown_ahead<sampled>>>(),
    by_block<names::chain_level, drafter::draw_level<grown<chain>, plain, draw>>(),
    by_block<names::lent_chain_level, drafter::draw_level<grown<chain>, plain, draw, true>>(),
    by_block<names::sampled_level, drafter::draw_level<grown<sampled>, plain, draw>>(),
    by_block<names::sampled_level_by_cost,
             drafter::draw_level<grown<sampled, length::cost>, plain, draw>>(),
    by_block<names::common_sampled_level, drafter::draw_level<grown_ahead<sampled>, plain, draw>>(),
    by_block<names::ranked_level, drafter::rank_level<grown<eagle>, stages>>(),
    by_block<names::plain_ranked_level, drafter::rank_level<grown<eagle>, plain>>(),
    by_cluster<names::plain_ranked_level, drafter::rank_level<grown<eagle>, plain>>(),
    by_block<names::ranked_level_by_entropy,
             drafter::rank_level<grown<eagle, length::entropy>, plain>>(),
    by_block<names::common_ranked_level,
             drafter::rank_level<grown_ahead<tree::fixed<some>>, plain>>(),
    by_block<names::end_of_a_chain_level, drafter::end_level<grown<chain>>>(),
    by_block<names::end_of_a_fixed_level, drafter::end_level<grown_ahead<tree::fixed<some>>>>(),
    by_block<names::end_of_a_dynamic_level, drafter::end_level<grown<eagle>>>(),
    by_block<names::end_of_a_level_by_cost, drafter::end_level<grown<sampled, length::cost>>>(),
    by_block<names::end_of_a_dynamic_tree, drafter::finish_dynamic<grown<eagle>>>(),
    by_block<names::plan_of_a_model, drafter::plan_drafts<stepped>>(),
    by_block<names::missed_tokens, drafter::stage_missed<stepped>>(),
    by_block<names::kept_missed_tokens, drafter::keep_missed<stepped>>(),
    by_block<names::committed_tokens, drafter::stage_committed<stepped>>(),
    by_block<names::rows_without_room, drafter::drop_full_rows<stepped>>(),
    by_block<names::frontier_rows, drafter::stage_frontier<stepped>>(),
    by_block<names::first_of_a_chain, kernel::in_order<drafter::plan_drafts<step_of<chain>>,
                                                       drafter::stage_committed<step_of<chain>>,
                                                       drafter::ask_level<grown<chain>>, prefixes,
                                                       drafter::list_level<grown<chain>, true>>>(),
    by_block<names::next_of_a_chain, kernel::in_order<drafter::end_level<grown<chain>>,
                                                      drafter::stage_frontier<step_of<chain>>,
                                                      drafter::ask_level<grown<chain>>, prefixes,
                                                      drafter::list_level<grown<chain>, true>>>(),
    by_block<names::first_of_a_dynamic_tree,
             kernel::in_order<drafter::plan_drafts<step_of<eagle>>,
                              drafter::stage_committed<step_of<eagle>>>>(),
    by_block<names::last_of_a_dynamic_tree,
             kernel::in_order<drafter::end_level<grown<eagle>>,
                              drafter::finish_dynamic<grown<eagle>>>>(),
    by_block<names::next_of_a_dynamic_tree,
             kernel::in_order<drafter::end_level<grown<eagle>>,
                              drafter::stage_frontier<step_of<eagle>>>>(),
    by_block<names::kept_tokens, drafter::keep_read<stepped>>(),
    by_block<names::forgotten_tokens, drafter::forget_read<stepped>>(),
    by_block<names::plan_of_heads, drafter::plan_inputs<grown_ahead<sampled>>>(),
    by_block<names::inputs_of_heads, drafter::place_inputs<grown_ahead<sampled>>>(),
    by_block<names::prunable_rows, drafter::place_prunable<float>>(),
    by_block<names::asked_transitions, drafter::ask_transitions<float>>(),
    by_block<names::weighed_children, drafter::weigh_children<float, plain>>(),
    by_block<names::pruned_drafts, drafter::prune_drafts<float>>(),
    by_block<names::merged_drafts, drafter::merge_drafts<float>>(),
    by_block<names::shared_outcomes, drafter::share_outcomes>(),
    by_block<names::passed_turns, drafter::pass_on<float>>(),
    by_block<names::told_drafters, drafter::tell_drafters>(),
    by_block<names::copied_match, drafter::copy_match<float, 8, 4, length::cost>>(),
};

}  // namespace hunch::gate

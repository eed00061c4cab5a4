// SPDX-License-Identifier: Apache-2.0
#include <hunch/kernel/ancestor_masks.hpp>
#include <hunch/kernel/draft_evidence.hpp>
#include <hunch/kernel/find_match.hpp>
#include <hunch/kernel/tree_links.hpp>
#include "gate.cuh"

namespace hunch::gate {
namespace names {
struct evidence_of_a_draw;
struct links_of_a_tree;
struct masks_of_a_tree;
struct match_of_a_text;
struct match_of_sixteen;
}  // namespace names

kernel_pointer drafts[] = {
    by_block<names::evidence_of_a_draw, kernel::report_evidence<float>>(),
    by_cluster<names::evidence_of_a_draw, kernel::report_evidence<float>>(),
    by_block<names::links_of_a_tree, kernel::link_tree>(),
    by_block<names::masks_of_a_tree, kernel::mark_ancestors>(),
    by_block<names::match_of_a_text, kernel::find_match<4>>(),
    by_cluster<names::match_of_a_text, kernel::find_match<4>>(),
    by_block<names::match_of_sixteen, kernel::find_match<16>>(),
};

}  // namespace hunch::gate

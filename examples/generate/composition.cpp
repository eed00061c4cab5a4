// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>

#include "generate/arguments.hpp"

namespace generate {

namespace {

using command_line::named;

constexpr named<drafter_kind> words_for_drafters[] = {
    {"plain decoding", drafter_kind::none},
    {"a smaller model drafts", drafter_kind::model},
    {"an EAGLE head drafts", drafter_kind::eagle},
    {"Medusa heads draft", drafter_kind::medusa},
    {"the target's own streams draft", drafter_kind::streaming},
    {"the target's first layers draft", drafter_kind::early_exit},
    {"the target's weights in four bits draft", drafter_kind::int4},
    {"what followed the end of the text before is the draft", drafter_kind::lookup},
    {"an EAGLE head and what followed the end of the text before draft", drafter_kind::ensemble},
    {"what followed the end of the text before, or the target's weights in four bits draft",
     drafter_kind::cascade}};
constexpr named<tree_kind> words_for_trees[] = {
    {"chains", tree_kind::chain},
    {"pairs of chains", tree_kind::sampled},
    {"dynamic trees (EAGLE-2)", tree_kind::dynamic},
    {"dynamic trees of 60 nodes (EAGLE-2)", tree_kind::dynamic_60},
    {"a fixed tree", tree_kind::fixed}};
constexpr named<selector_kind> words_for_selectors[] = {
    {"the whole vocabulary", selector_kind::full},
    {"the most frequent tokens (FR-Spec)", selector_kind::frequency},
    {"a trimmed head (VocabTrim)", selector_kind::trimmed},
    {"clusters that a router chooses (DynaSpec)", selector_kind::clustered}};
constexpr named<verifier_kind> words_for_verifiers[] = {
    {"speculative sampling", verifier_kind::rejection},
    {"block verification", verifier_kind::block},
    {"coupled draws", verifier_kind::coupled},
    {"the target's own draws", verifier_kind::point_mass},
    {"greedy match", verifier_kind::greedy}};

template <class T, std::size_t N>
std::string words_of(const named<T> (&all)[N], T value) {
  return std::find_if(std::begin(all), std::end(all),
                      [&](const auto& of) { return of.second == value; })
      ->first;
}

}  // namespace

std::string composition(const arguments& a) {
  if (a.method != method_kind::speculative) {
    const bool cached = a.block_cache != engine::block_cache::none;
    const std::string model =
        std::string("a masked diffusion model") + (cached ? " with a block cache, " : ", ");
    if (a.method == method_kind::stepwise) { return model + "one token a pass"; }
    std::string out =
        model + (a.draft.empty() ? "which drafts for itself" : "and a head that drafts for it");
    if (a.spread == 0.0) { out += " in a chain"; }
    if (a.accepted_rank > 0) {
      out += ", verified by rank " + std::to_string(a.accepted_rank) + " (lossy)";
    }
    return out;
  }
  const drafter_kind drafter = a.decodes_plainly() ? drafter_kind::none : a.drafter;
  std::string out = words_of(words_for_drafters, drafter);
  if (drafter == drafter_kind::none) { return out; }
  if (drafter != drafter_kind::lookup) {
    out += ' ' + words_of(words_for_trees, a.tree);
    if (a.kept_nodes > 0) {
      out += ", of which its first layers leave " + std::to_string(a.kept_nodes) + " nodes,";
    }
    out += " from " + words_of(words_for_selectors, a.selector);
  }
  return out + ", verified by " + words_of(words_for_verifiers, a.verifier);
}

}  // namespace generate

// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "generate/arguments.hpp"

namespace generate {

namespace {

const char* words_of(drafter_kind drafter) {
  switch (drafter) {
    case drafter_kind::none:
      return "plain decoding";
    case drafter_kind::model:
      return "a smaller model drafts";
    case drafter_kind::eagle:
      return "an EAGLE head drafts";
    case drafter_kind::medusa:
      return "Medusa heads draft";
    case drafter_kind::streaming:
      return "the target's own streams draft";
    case drafter_kind::early_exit:
      return "the target's first layers draft";
    case drafter_kind::int4:
      return "the target's weights in four bits draft";
    case drafter_kind::lookup:
      return "what followed the end of the text before is the draft";
  }
  return "";
}

const char* words_of(tree_kind tree) {
  switch (tree) {
    case tree_kind::chain:
      return "chains";
    case tree_kind::sampled:
      return "pairs of chains";
    case tree_kind::dynamic:
      return "dynamic trees (EAGLE-2)";
    case tree_kind::fixed:
      return "a fixed tree";
  }
  return "";
}

const char* words_of(selector_kind selector) {
  switch (selector) {
    case selector_kind::full:
      return "the whole vocabulary";
    case selector_kind::frequency:
      return "the most frequent tokens (FR-Spec)";
    case selector_kind::trimmed:
      return "a trimmed head (VocabTrim)";
    case selector_kind::clustered:
      return "clusters that a router chooses (DynaSpec)";
  }
  return "";
}

const char* words_of(verifier_kind verifier) {
  switch (verifier) {
    case verifier_kind::rejection:
      return "speculative sampling";
    case verifier_kind::block:
      return "block verification";
    case verifier_kind::coupled:
      return "coupled draws";
    case verifier_kind::point_mass:
      return "the target's own draws";
    case verifier_kind::greedy:
      return "greedy match";
  }
  return "";
}

}  // namespace

std::string composition(const arguments& a) {
  if (a.method != method_kind::speculative) {
    const std::string model = "a masked diffusion model, ";
    if (a.method == method_kind::stepwise) { return model + "one token a pass"; }
    return model + (a.draft.empty() ? "which drafts for itself" : "and a head that drafts for it");
  }
  if (a.decodes_plainly()) { return words_of(drafter_kind::none); }
  std::string out = words_of(a.drafter);
  if (a.drafter != drafter_kind::lookup) {
    out += std::string(" ") + words_of(a.tree) + " from " + words_of(a.selector);
  }
  return out + ", verified by " + words_of(a.verifier);
}

}  // namespace generate

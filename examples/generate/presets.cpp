// SPDX-License-Identifier: Apache-2.0
#include "generate/presets.hpp"

namespace generate {

std::span<const preset> presets() {
  static const std::vector<preset> all{
      {"dynaspec",
       "int4 copy, clusters of tokens that a router chooses (DynaSpec)",
       {"--drafter", "int4", "--selector", "clustered", "--budget", "per-row:rows:2400"}},
      {"fr-spec",
       "int4 copy, the most frequent tokens (FR-Spec)",
       {"--drafter", "int4", "--selector", "frequency"}},
      {"vocab-trim",
       "int4 copy, a head of the most frequent tokens (VocabTrim)",
       {"--drafter", "int4", "--selector", "trimmed"}},
      {"int4",
       "a copy of the target in four bits drafts from the whole vocabulary",
       {"--drafter", "int4", "--selector", "full"}},
      {"draft-model",
       "a smaller model drafts from the whole vocabulary",
       {"--drafter", "model", "--selector", "full"}},
      {"eagle",
       "a layer on the target's features drafts (EAGLE)",
       {"--drafter", "eagle", "--selector", "clustered"}},
      {"eagle-2",
       "the same, trees of its most probable tokens (EAGLE-2)",
       {"--drafter", "eagle", "--selector", "clustered", "--tree", "dynamic"}},
      {"medusa",
       "heads that look several tokens ahead draft a fixed tree (Medusa)",
       {"--drafter", "medusa", "--tree", "fixed"}},
      {"streaming",
       "the target drafts in the pass that verifies (Speculative Streaming)",
       {"--drafter", "streaming"}},
      {"early-exit",
       "the target's first layers draft (LayerSkip)",
       {"--drafter", "early-exit", "--selector", "clustered"}},
      {"lookup", "what followed the end of the text before is the draft", {"--drafter", "lookup"}},
      {"plain", "plain decoding", {"--drafter", "none"}},
      {"diffusion",
       "a masked diffusion model that drafts for itself (SSD)",
       {"--method", "diffusion"}},
      {"canvas-head",
       "a masked diffusion model, and a head that drafts for it",
       {"--method", "diffusion", "--draft", HUNCH_MODELS "/canvas_head"}},
  };
  return all;
}

}  // namespace generate

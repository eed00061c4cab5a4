// SPDX-License-Identifier: Apache-2.0
#include <engine/early_contexts.hpp>

#include "generate/combined_drafts.hpp"
#include "generate/program.hpp"

namespace generate {

void program::with_ensemble() {
  chosen_eagle eagle = eagle_head();
  const auto with = [&](auto& model) {
    ranked(eagle.selector, merged_drafts(model, chosen_length{&length_}));
  };
  if (eagle.is_early()) {
    engine::early_contexts early(eagle.head);
    return with(early);
  }
  with(eagle.head);
}

}  // namespace generate

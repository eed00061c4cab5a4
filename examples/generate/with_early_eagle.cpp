// SPDX-License-Identifier: Apache-2.0
#include <engine/early_contexts.hpp>

#include "generate/program.hpp"

namespace generate {

/// An EAGLE head whose router reads what is known before its pass.
void program::with_early_eagle(engine::eagle_model& draft, const any_selector& selector) {
  engine::early_contexts early(draft);
  over_trees(selector, [&](auto tree) {
    return hunch::drafter::autoregressive{early, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

void program::with_eagle() {
  engine::eagle_model draft =
      engine::eagle_model::load(args_.draft, args_.model, target_, options());
  const hunch::selector::any<> selector =
      chosen_selector(draft.made_for(), draft.context_width(), draft.input_width());
  draft.set_head_layout(selector.layout());
  if (selector.context_width() == draft.input_width()) { return with_early_eagle(draft, selector); }
  over_trees(selector, [&](auto tree) {
    return hunch::drafter::autoregressive{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

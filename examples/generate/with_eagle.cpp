// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

program::chosen_eagle program::eagle_head() {
  engine::eagle_model head =
      engine::eagle_model::load(args_.draft, args_.model, target_, options());
  hunch::selector::any<> selector =
      chosen_selector(head.made_for(), head.context_width(), head.input_width());
  head.set_head_layout(selector.layout());
  return {std::move(head), std::move(selector)};
}

void program::with_eagle() {
  chosen_eagle eagle = eagle_head();
  if (eagle.is_early()) { return with_early_eagle(eagle.head, eagle.selector); }
  over_trees(eagle.selector, [&](auto tree) {
    return hunch::drafter::autoregressive{eagle.head, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

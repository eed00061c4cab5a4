// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

any_selector program::selector_of(engine::eagle_model& head) {
  const hunch::vocab_layout* const own = head.head_tokens();
  if (own == nullptr) {
    return chosen_selector(head.made_for(), head.context_width(), head.input_width());
  }
  if (args_.selector == selector_kind::clustered || !args_.layout.empty() ||
      args_.shortlist_rows > 0) {
    throw usage_error("--selector: " + args_.draft + " has a head of its own over " +
                      std::to_string(own->head_rows()) +
                      " tokens, all of which it drafts from: "
                      "leave --selector and --layout out");
  }
  args_.selector = selector_kind::trimmed;  // what the report says
  return any_selector(hunch::selector::trimmed{*own});
}

program::chosen_eagle program::eagle_head() {
  engine::eagle_model head =
      engine::eagle_model::load(args_.draft, args_.model, target_, options());
  any_selector selector = selector_of(head);
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

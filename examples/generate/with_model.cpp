// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

/// A smaller model, or the target's own weights in four bits.
void program::with_model() {
  engine::model_options o = options();
  if (args_.drafter == drafter_kind::int4) { o.kind = engine::arithmetic::int4; }
  engine::model draft = engine::model::load(args_.draft, o);
  session_.check_draft(draft.shape());
  const hunch::selector::any<> selector = chosen_selector(draft.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  over_trees(selector, [&](auto tree) {
    return hunch::drafter::autoregressive{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

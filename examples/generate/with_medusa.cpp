// SPDX-License-Identifier: Apache-2.0
#include <engine/medusa.hpp>

#include "generate/program.hpp"

namespace generate {

void program::with_medusa() {
  engine::medusa_heads draft = engine::medusa_heads::load(args_.draft, target_);
  const hunch::selector::any<> selector =
      chosen_selector(target_.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  // Medusa's models have four heads or more, and a tree is not deeper than there are heads.
  over_trees<hunch::tree::chain<4>>(selector, [&](auto tree) {
    return hunch::drafter::heads{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

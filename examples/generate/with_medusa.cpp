// SPDX-License-Identifier: Apache-2.0
#include <engine/medusa.hpp>

#include "generate/program.hpp"

namespace generate {

void program::with_medusa() {
  engine::medusa_heads draft = engine::medusa_heads::load(args_.draft, target_);
  const any_selector selector = chosen_selector(target_.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  over_trees<heads_chain_shape>(selector, [&](auto tree) {
    return hunch::drafter::heads{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

// SPDX-License-Identifier: Apache-2.0
#include <engine/early_exit.hpp>

#include "generate/program.hpp"

namespace generate {

void program::with_early_exit() {
  engine::early_exit draft = engine::early_exit::load(args_.draft, target_);
  const any_selector selector = chosen_selector(target_.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  over_trees(selector, [&](auto tree) {
    return hunch::drafter::autoregressive{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

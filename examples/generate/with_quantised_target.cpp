// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "generate/program.hpp"

namespace generate {

bool program::drafts_with_target() const {
  return std::filesystem::equivalent(args_.draft, args_.model);
}

engine::quantised_target program::target_in_four_bits() {
  return engine::quantised_target::load(args_.model, target_, engine::arithmetic::int4,
                                        options().threads);
}

void program::with_quantised_target() {
  engine::quantised_target draft = target_in_four_bits();
  const any_selector selector = chosen_selector(target_.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  over_trees(selector, [&](auto tree) {
    return hunch::drafter::autoregressive{draft, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

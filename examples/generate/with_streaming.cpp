// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

void program::with_streaming() {
  engine::speculative_streams streams = engine::speculative_streams::load(args_.draft, target_);
  const any_selector selector = chosen_selector(target_.made_for(), streams.context_width());
  streams.set_head_layout(selector.layout());
  if (args_.kept_nodes > 0) { return with_pruned_streams(streams, selector); }
  over_trees<heads_chain_shape>(selector, [&](auto tree) {
    return hunch::drafter::streaming{streams, tree, chosen_length{&length_}};
  });
}

}  // namespace generate

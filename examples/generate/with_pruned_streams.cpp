// SPDX-License-Identifier: Apache-2.0
#include <engine/early_exit.hpp>

#include "generate/check_exit.hpp"
#include "generate/program.hpp"

namespace generate {

/// Streams whose trees the target's first layers prune.
void program::with_pruned_streams(engine::speculative_streams& streams,
                                  const any_selector& selector) {
  engine::early_exit exit = engine::early_exit::load(args_.exit, target_);
  check_exit(args_, exit.layers(), target_.shape().layers - streams.layers());
  with_prunable_tree(args_.tree, [&](auto tree) {
    ranked(selector,
           hunch::drafter::pruned{hunch::drafter::streaming{streams, tree, chosen_length{&length_}},
                                  exit, args_.kept_nodes});
  });
}

}  // namespace generate

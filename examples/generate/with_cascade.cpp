// SPDX-License-Identifier: Apache-2.0
#include "generate/combined_drafts.hpp"
#include "generate/program.hpp"

namespace generate {

void program::with_cascade() {
  engine::quantised_target draft = target_in_four_bits();
  const any_selector selector = chosen_selector(target_.made_for(), draft.context_width());
  draft.set_head_layout(selector.layout());
  drawn(selector, copied_or_drafted(draft, chosen_length{&length_}));
}

}  // namespace generate

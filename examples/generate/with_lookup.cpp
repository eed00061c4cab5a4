// SPDX-License-Identifier: Apache-2.0
#include "generate/program.hpp"

namespace generate {

void program::with_lookup() {
  ranked(any_selector(hunch::selector::full{target_.vocab_size()}),
         hunch::drafter::lookup<max_draft_length, 4, chosen_length>{1, {&length_}});
}

}  // namespace generate

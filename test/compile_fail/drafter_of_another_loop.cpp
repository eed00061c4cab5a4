// SPDX-License-Identifier: Apache-2.0
// expect: a resident loop drafts with drafter::none, drafter::lookup, or

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  resident_decoder d{target{}, compile_fail::drafter<child_law::independent, true>{},
                     selector::full{4}, sampled{}, verifier::rejection{}};
#else
  resident_decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{},
                     verifier::rejection{}};
#endif
}

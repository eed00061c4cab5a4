// SPDX-License-Identifier: Apache-2.0
// expect: this drafter cannot draft here: give it propose(

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct incomplete : hunch::drafter::none {
#ifdef WRONG
  void propose() = delete;
#endif
};

void compose() {
  decoder d{target{}, incomplete{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

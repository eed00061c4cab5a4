// SPDX-License-Identifier: Apache-2.0
// expect: this verifier is not exact on such draft trees

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  decoder d{target{}, compile_fail::drafter<child_law::independent, false>{}, selector::full{4},
            sampled{}, verifier::block{}};
#else
  decoder d{target{}, compile_fail::drafter<child_law::independent, true>{}, selector::full{4},
            sampled{}, verifier::block{}};
#endif
}

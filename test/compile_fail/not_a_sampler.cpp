// SPDX-License-Identifier: Apache-2.0
// expect: the fourth argument of a decoder must model hunch::Sampler

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, verifier::rejection{},
            verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
}

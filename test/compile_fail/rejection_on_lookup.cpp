// SPDX-License-Identifier: Apache-2.0
// expect: a ranked drafter has none: use verifier::point_mass, or a drafter that samples

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  decoder d{target{}, hunch::drafter::lookup<4>{}, selector::full{4}, sampled{},
            verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::lookup<4>{}, selector::full{4}, sampled{},
            verifier::point_mass{}};
#endif
}

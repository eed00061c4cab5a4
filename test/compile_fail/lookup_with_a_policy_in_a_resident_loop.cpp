// SPDX-License-Identifier: Apache-2.0
// expect: in a resident loop drafter::lookup has length::fixed

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  resident_decoder d{target{}, hunch::drafter::lookup<4, 4, length::ewma>{}, selector::full{4},
                     sampled{}, verifier::point_mass{}};
#else
  resident_decoder d{target{}, hunch::drafter::lookup<4, 4>{}, selector::full{4}, sampled{},
                     verifier::point_mass{}};
#endif
}

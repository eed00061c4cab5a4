// SPDX-License-Identifier: Apache-2.0
// expect: use sampler::greedy, or verifier::rejection or verifier::point_mass for sampled text

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::greedy{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampler::greedy{},
            verifier::greedy{}};
#endif
}

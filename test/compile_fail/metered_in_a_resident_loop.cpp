// SPDX-License-Identifier: Apache-2.0
// expect: a resident loop does not read: use hunch::decoder, or length::cost

#include <hunch/length/meter.hpp>
#include <hunch/length/metered.hpp>
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
  const length::meter meter(4);
#ifdef WRONG
  resident_decoder d{target{},
                     hunch::drafter::lookup<4, 4, length::metered>{1, length::metered{meter}},
                     selector::full{4}, sampled{}, verifier::point_mass{}};
#else
  decoder d{target{}, hunch::drafter::lookup<4, 4, length::metered>{1, length::metered{meter}},
            selector::full{4}, sampled{}, verifier::point_mass{}};
#endif
}

// SPDX-License-Identifier: Apache-2.0
// expect: a ranked drafter has none: use verifier::point_mass, or a drafter that samples

#include <utility>

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

// What is drawn is tested against the law that it was drawn from; once it is merged with what
// another drafter has, or left out for want of room, there is no such law.
void compose() {
  using drawn = compile_fail::drafter<child_law::independent, true>;
  hunch::drafter::ensemble both{drawn{}, hunch::drafter::lookup<3>{}};
#ifdef WRONG
  decoder d{target{}, std::move(both), selector::full{4}, sampled{}, verifier::rejection{}};
#else
  decoder d{target{}, std::move(both), selector::full{4}, sampled{}, verifier::point_mass{}};
#endif
}

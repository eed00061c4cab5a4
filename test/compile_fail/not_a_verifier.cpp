// SPDX-License-Identifier: Apache-2.0
// expect: must model hunch::Verifier
// expect: hunch: verifier::one_of chooses between two or more
// expect: hunch: verifier::one_of chooses by type

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#if defined(WRONG) && WRONG == 1
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, sampled{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
#if defined(WRONG) && WRONG == 2
  const verifier::one_of<verifier::rejection> rule;
#elif defined(WRONG) && WRONG == 3
  const verifier::one_of<verifier::rejection, verifier::rejection> rule;
#else
  const verifier::one_of<verifier::rejection, verifier::block> rule;
#endif
  static_cast<void>(rule);
}

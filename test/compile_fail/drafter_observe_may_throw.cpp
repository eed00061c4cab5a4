// SPDX-License-Identifier: Apache-2.0
// expect: and observe(state, outcomes, evaluation, executor)

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct throwing : hunch::drafter::none {
#ifdef WRONG
  template <class State, class E, class Executor>
  void observe(State&, const draft_outcomes&, E&, Executor&) {}
#endif
};

void compose() {
  decoder d{target{}, throwing{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

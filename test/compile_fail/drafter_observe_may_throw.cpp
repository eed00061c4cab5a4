// SPDX-License-Identifier: Apache-2.0
// expect: and observe(state, outcomes, evaluation) noexcept

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct throwing : hunch::drafter::none {
#ifdef WRONG
  template <class State, class E>
  void observe(State&, const draft_outcomes&, E&) {}
#endif
};

void compose() {
  decoder d{target{}, throwing{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

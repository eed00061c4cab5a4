// SPDX-License-Identifier: Apache-2.0
// expect: the first argument of a decoder must model hunch::TargetModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  struct throwing : target {
    void commit(const kept_rows&) {}
  };
  decoder d{throwing{}, hunch::drafter::none{}, selector::full{4}, sampled{},
            verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
}

// SPDX-License-Identifier: Apache-2.0
// expect: the first argument of a decoder must model hunch::TargetModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  struct half {
    std::int32_t vocab_size() const { return 4; }
    evaluation evaluate(const rows&) { return {}; }
  };
  decoder d{half{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
}

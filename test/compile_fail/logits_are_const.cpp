// SPDX-License-Identifier: Apache-2.0
// expect: the first argument of a decoder must model hunch::TargetModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  struct frozen {
    hunch::status status(std::int32_t) const { return hunch::status::ok; }
    row_view<const float> logits(std::int32_t) const { return {}; }
  };
  struct reading : target {
    frozen evaluate(const rows&) { return {}; }
  };
  decoder d{reading{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#else
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
#endif
}

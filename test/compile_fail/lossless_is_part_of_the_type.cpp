// SPDX-License-Identifier: Apache-2.0
// expect: this engine promises exact text

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A rule that accepts everything.
struct hopeful : verifier::rejection {
#ifdef WRONG
  static constexpr bool lossless = false;
#endif
};

void compose() {
  decoder d{target{}, hunch::drafter::none{}, selector::full{4}, sampled{}, hopeful{}};
  static_assert(decltype(d)::lossless, "this engine promises exact text");
}

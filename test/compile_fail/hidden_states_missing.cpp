// SPDX-License-Identifier: Apache-2.0
// expect: give the target's evaluation a function hidden(row)

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A drafter that reads the target's features.
struct reader : hunch::drafter::none {
#ifdef WRONG
  static constexpr bool needs_hidden = true;
#endif
};

void compose() {
  decoder d{target{}, reader{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

// SPDX-License-Identifier: Apache-2.0
// expect: give the target's evaluation a function stream(row, j)

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A drafter that reads streams of the target.
struct reader : hunch::drafter::none {
#ifdef WRONG
  static constexpr std::int32_t streams = 2;
  static std::int32_t hidden_size() { return 4; }
#endif
};

void compose() {
  decoder d{target{}, reader{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

// SPDX-License-Identifier: Apache-2.0
// expect: must model hunch::DraftModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  hunch::drafter::autoregressive d{target{}, tree::chain<1>{}};
#else
  hunch::drafter::autoregressive d{draft_model{}, tree::chain<1>{}};
#endif
}

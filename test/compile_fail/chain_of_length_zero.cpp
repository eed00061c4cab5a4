// SPDX-License-Identifier: Apache-2.0
// expect: hunch: tree::chain<N> drafts N tokens

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  hunch::drafter::autoregressive d{draft_model{}, tree::chain<0>{}};
#else
  hunch::drafter::autoregressive d{draft_model{}, tree::chain<1>{}};
#endif
}

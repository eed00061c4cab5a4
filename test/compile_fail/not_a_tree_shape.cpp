// SPDX-License-Identifier: Apache-2.0
// expect: the second argument of drafter::autoregressive must model hunch::TreeShape

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// It does not say how many children a node has.
struct bush {
  static constexpr std::int32_t max_nodes = 4;
  static constexpr child_law children = child_law::independent;
  static constexpr bool is_chain = false;
};

void compose() {
#ifdef WRONG
  hunch::drafter::autoregressive d{draft_model{}, bush{}};
#else
  hunch::drafter::autoregressive d{draft_model{}, tree::chain<3>{}};
#endif
}

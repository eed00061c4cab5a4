// SPDX-License-Identifier: Apache-2.0
// expect: which is exact for ranked children only

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct first_layers : draft_model {
  static constexpr bool shares_target_cache = true;
};

#ifdef WRONG
using shape = tree::sampled<2, 1>;
#else
using shape = tree::dynamic<2, 2, 5>;
#endif

void compose() {
  hunch::drafter::pruned d{hunch::drafter::streaming{draft_heads{}, shape{}}, first_layers{}, 3};
}

// SPDX-License-Identifier: Apache-2.0
// expect: branch_plan<N> has at least the trunk
// expect: the model of hunch::full_logits must model hunch::TargetModel

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#if !defined(WRONG)
  branch_plan<1> plan(1, 4, 4);
  full_logits draft{target{}};
#elif WRONG == 1
  branch_plan<0> plan(1, 4, 4);
#else
  struct nothing {};
  using wrong = full_logits<nothing>;
  sizeof(wrong);
#endif
}

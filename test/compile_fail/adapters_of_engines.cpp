// SPDX-License-Identifier: Apache-2.0
// expect: branch_plan<N> has at least the trunk
// expect: the model of hunch::full_logits must model hunch::TargetModel
// expect: hunch: the target has one state for a sequence and reads no branches
// expect: hunch: the draft model has one state for a sequence and drafts no branches

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct recurrent : target {
  static constexpr bool has_one_state = true;
};

void compose() {
#if !defined(WRONG)
  branch_plan<1> plan(1, 4, 4);
  full_logits draft{target{}};
  using chain_of = hunch::drafter::autoregressive<full_logits<recurrent>, tree::chain<2>>;
  decoder chains{recurrent{}, chain_of{full_logits{recurrent{}}}, selector::full{4}, sampled{},
                 verifier::point_mass{}};
#elif WRONG == 1
  branch_plan<0> plan(1, 4, 4);
#elif WRONG == 2
  struct nothing {};
  using wrong = full_logits<nothing>;
  sizeof(wrong);
#elif WRONG == 3
  using tree_of = hunch::drafter::autoregressive<draft_model, tree::dynamic<2, 2, 4>>;
  decoder d{recurrent{}, tree_of{draft_model{}}, selector::full{4}, sampled{},
            verifier::point_mass{}};
#else
  using wrong = hunch::drafter::autoregressive<full_logits<recurrent>, tree::dynamic<2, 2, 4>>;
  sizeof(wrong);
#endif
}

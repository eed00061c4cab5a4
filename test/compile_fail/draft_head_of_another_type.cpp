// SPDX-License-Identifier: Apache-2.0
// expect: the draft model's head must write logits of the target's type

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A target whose logits are double; the head of `draft_model` writes float.
struct evaluation_of_doubles {
  hunch::status status(std::int32_t) const { return hunch::status::ok; }
  row_view<double> logits(std::int32_t) const { return {}; }
};
struct target_of_doubles : target {
  evaluation_of_doubles evaluate(const rows&) { return {}; }
};

void compose() {
#ifdef WRONG
  using model = target_of_doubles;
#else
  using model = target;
#endif
  decoder d{model{}, hunch::drafter::autoregressive{draft_model{}, tree::chain<1>{}},
            selector::full{4}, sampled{}, verifier::rejection{}};
  d.step();
}

// SPDX-License-Identifier: Apache-2.0
// expect: the heads must write logits of the target's type

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// A target with hidden states; the heads of `draft_heads` write float.
template <class Real>
struct evaluation_with_states {
  hunch::status status(std::int32_t) const { return hunch::status::ok; }
  row_view<Real> logits(std::int32_t) const { return {}; }
  row_view<float> hidden(std::int32_t) const { return {}; }
};
template <class Real>
struct target_with_states : target {
  evaluation_with_states<Real> evaluate(const rows&) { return {}; }
};

void compose() {
#ifdef WRONG
  using model = target_with_states<double>;
#else
  using model = target_with_states<float>;
#endif
  decoder d{model{}, hunch::drafter::heads{draft_heads{}, tree::chain<1>{}}, selector::full{4},
            sampled{}, verifier::rejection{}};
  d.step();
}

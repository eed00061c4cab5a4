// SPDX-License-Identifier: Apache-2.0
// expect: double: give the target's evaluation rows of one of these

#include <cstdint>

#include <hunch/core/bfloat16.hpp>
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

template <class Real>
struct evaluation_in {
  hunch::status status(std::int32_t) const { return hunch::status::ok; }
  row_view<Real> logits(std::int32_t) const { return {}; }
};
template <class Real>
struct target_of : target {
  evaluation_in<Real> evaluate(const rows&) { return {}; }
};

void compose() {
#ifdef WRONG
  using model = target_of<std::int8_t>;
#else
  using model = target_of<bfloat16>;
#endif
  decoder d{model{}, hunch::drafter::none{}, selector::full{4}, sampled{}, verifier::rejection{}};
}

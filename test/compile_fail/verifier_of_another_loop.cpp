// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the fourth argument of a diffusion::decoder must model
// hunch::diffusion::DraftVerifier

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  const verifier::top_k rule{2};  // a rule for texts that are written from left to right
#else
  const diffusion::verifier::top_k rule{2};
#endif
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{}, rule};
}

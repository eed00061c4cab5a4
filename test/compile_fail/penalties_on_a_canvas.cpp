// SPDX-License-Identifier: Apache-2.0
// expect: hunch: a canvas is not unmasked from left to right, so no tokens come before a position

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  const sampler::pipeline stages{sampler::penalties{}, sampler::temperature{}};
#else
  const sampler::pipeline stages{sampler::bias{}, sampler::temperature{}};
#endif
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, stages,
                       diffusion::verifier::stepwise_exact{}};
}

// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the model of diffusion::drafted_by reads canvases as they are

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

struct cached : masked {
#ifdef WRONG
  static constexpr bool caches_blocks = true;
#endif
};

void compose() {
  diffusion::decoder d{masked{}, diffusion::order::confidence{}, sampled{},
                       diffusion::verifier::stepwise_exact{}, diffusion::drafted_by<2>(cached{})};
}

// SPDX-License-Identifier: Apache-2.0
// expect: must be a SamplerStage

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose() {
#ifdef WRONG
  sampler::pipeline p{sampler::greedy{}};
#else
  sampler::pipeline p{sampler::temperature{}};
#endif
}
